// The extension module dp_bench._plugins: any env plugin, by the loader of an installation.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <filesystem>

#include "bindings.h"
#include "dp_bench/config.h"
#include "dp_bench/load_env.h"
#include "env_simulation.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_plugins, m) {
  using namespace dp_bench;
  using namespace dp_bench::python;
  m.doc() = "The env plugins of an installation of dp_bench.";
  BindBatch(m);
  m.def(
      "make_batch",
      [](const std::string& section, const std::vector<std::string>& plugin_dirs,
         const BatchOptions& options) {
        const std::vector<std::filesystem::path> folders(plugin_dirs.begin(), plugin_dirs.end());
        return std::make_unique<EnvBatch>(
            [&] {
              const Config config = Config::FromJson(section, "the arguments");
              return std::make_unique<EnvSimulation>(LoadEnv(config, folders));
            },
            options, /*max_chunk=*/1);
      },
      "section"_a, "plugin_dirs"_a, "options"_a, "`section`: `env` of a config, as JSON.");
}
