// Loads an env plugin into a program that is not dp_bench, for example to test a control loop
// without a robot. Link dp_bench::sdk.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "dp_bench/export.h"

namespace dp_bench {

/// The env of a section such as {"plugin": "pusht", "params": {}}: `env` in the config of a run or
/// checkpoint. Plugins are searched for in `plugin_dirs`, DP_BENCH_PLUGIN_PATH, this installation
/// of dp_bench and ~/.local/share/dp_bench/plugins, and stay loaded. Throws Error{kConfig} or
/// {kPlugin}.
DPB_API std::unique_ptr<Env> LoadEnv(const Config& env,
                                     const std::vector<std::filesystem::path>& plugin_dirs = {});

}  // namespace dp_bench
