// The extension module dp_bench._core: PushT, which needs no library beyond the C library.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "pusht_simulation.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_core, m) {
  using namespace dp_bench::python;
  constexpr std::size_t kMaxChunk = 32;  // a step takes less than a microsecond
  m.doc() = "PushT of dp_bench.";
  BindBatch(m);
  m.attr("SUCCESS_COVERAGE") = kSuccessCoverage;
  m.def("legacy_start", &LegacyStart, "seed"_a,
        "The start that diffusion_policy draws with this seed: agent x, y, block x, y, angle.");
  m.def(
      "make_batch",
      [](const std::vector<std::string>& obs, const BatchOptions& options) {
        return MakeBatch([&] { return std::make_unique<PushtSimulation>(obs); }, options,
                         kMaxChunk);
      },
      "obs"_a, "options"_a,
      "`obs`: of state, environment_state, agent_pos and pixels. Seeds start as in "
      "diffusion_policy.");
}
