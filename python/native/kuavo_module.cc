// The extension module dp_bench._kuavo: the env plugin `kuavo_dualarm`.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "bindings.h"
#include "dp_bench/config.h"
#include "env_simulation.h"
#include "kuavo_env.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_kuavo, m) {
  using namespace dp_bench;
  using namespace dp_bench::python;
  m.doc() = "The env plugin kuavo_dualarm of dp_bench.";
  BindBatch(m);
  m.def(
      "make_batch",
      [](const std::string& params, const BatchOptions& options) {
        return std::make_unique<EnvBatch>(
            [&] {
              const Config config = Config::FromJson(params, "the arguments");
              auto env = std::make_unique<kuavo_dualarm::KuavoEnv>(config);
              config.RejectUnread();
              return std::make_unique<EnvSimulation>(std::move(env));
            },
            options, /*max_chunk=*/1);
      },
      "params"_a, "options"_a, "`params`: the plugin's params as JSON.");
}
