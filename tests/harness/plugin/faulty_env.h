// The env of tests/support/broken_plugins/faulty_env.cc, in a separate process and inside the test.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "plugin/catalogue.h"
#include "plugin/isolated_env.h"

namespace dp_bench::plugin {

inline std::filesystem::path FaultyPlugin() {
  return std::filesystem::path(DPB_BROKEN_PLUGIN_DIR) / "faulty/libdpb_env_faulty.so";
}

/// Short limits, so that a test of one ends quickly.
inline EnvLimits ShortLimits() { return {.step_timeout = 2.0, .reset_timeout = 10.0}; }

inline std::unique_ptr<Env> MakeIsolated(const Config& params,
                                         const EnvLimits& limits = ShortLimits()) {
  return CreateIsolatedEnv({PluginKind::kEnv, "faulty", FaultyPlugin()}, params, limits);
}

inline std::unique_ptr<Env> MakeIsolated(const std::string& params = "{}",
                                         const EnvLimits& limits = ShortLimits()) {
  return MakeIsolated(Config::FromJson(params, "params"), limits);
}

inline EnvSpec DescribeIsolated(const Config& params) {
  return DescribeIsolatedEnv({PluginKind::kEnv, "faulty", FaultyPlugin()}, params, ShortLimits());
}

inline EnvSpec DescribeDirect(const Config& params) {
  PluginCatalogue catalogue({});
  return catalogue.DescribeEnv(catalogue.LoadFile(FaultyPlugin()).name, params);
}

/// The same in this process.
inline std::unique_ptr<Env> MakeDirect(const Config& params) {
  PluginCatalogue catalogue({});
  return catalogue.Create<Env>(catalogue.LoadFile(FaultyPlugin()).name, params);
}

inline std::unique_ptr<Env> MakeDirect(const std::string& params = "{}") {
  return MakeDirect(Config::FromJson(params, "params"));
}

/// Params with one fault, of seed 0.
inline std::string OneFault(const std::string& kind, const std::string& in, int step = 0,
                            const std::filesystem::path& marker_dir = {}) {
  return fmt::format(
      R"({{"faults": [{{"kind": "{}", "in": "{}", "step": {}}}], "marker_dir": "{}"}})", kind, in,
      step, marker_dir.string());
}

}  // namespace dp_bench::plugin
