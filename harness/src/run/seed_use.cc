#include "run/seed_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/env_runner_config.h"
#include "core/json.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

using Json = nlohmann::json;

// The value at a JSON pointer of the config, or the default.
template <class T>
T ValueAt(const Json& config, const char* place, T otherwise) {
  const Json::json_pointer pointer(place);
  return config.contains(pointer) ? core::JsonView(config[pointer], place).As<T>() : otherwise;
}

std::string Listed(const SeedRange& range) {
  if (range.n == 1) return std::to_string(range.first);
  return fmt::format("{} to {}", range.first,
                     range.first + static_cast<std::uint64_t>(range.n) - 1);
}

Json RangeJson(const SeedRange& range) { return {{"first", range.first}, {"n", range.n}}; }

SeedRange RangeFrom(const core::JsonView& json) {
  const SeedRange range = {.first = json.Get<std::uint64_t>("first"), .n = json.Get<int>("n")};
  if (range.n < 0) json.Fail("expected a number of seeds, found a negative one");
  return range;
}

}  // namespace

int CountShared(const SeedRange& a, const SeedRange& b) {
  if (b.first < a.first) return CountShared(b, a);
  const std::uint64_t gap = b.first - a.first;
  if (gap >= static_cast<std::uint64_t>(a.n)) return 0;
  return std::min(a.n - static_cast<int>(gap), b.n);
}

SeedRange ReportSeeds(const Json& config) {
  const control::EnvRunnerConfig defaults;
  return {.first = ValueAt(config, "/env_runner/test_start_seed", defaults.test_start_seed),
          .n = ValueAt(config, "/env_runner/n_test", defaults.n_test)};
}

SeedRange SelectionSeeds(const Json& config) {
  SeedRange range = ReportSeeds(config);
  range.first = ValueAt(config, "/env_runner/selection_start_seed", range.first);
  if (ValueAt(config, "/training/rollout_every", 1) == 0) range = {};
  return range;
}

Json ToJson(const SeedUse& use) {
  return {{"report", RangeJson(use.report)},
          {"selection", RangeJson(use.selection)},
          {"n_shared", use.n_shared()}};
}

std::optional<SeedUse> SeedUseOf(const std::string& manifest) {
  const Json json = core::TryParseJson(manifest);
  const core::JsonView view(json, kManifestFile);
  if (!view.Has("seeds")) return std::nullopt;
  try {
    const core::JsonView seeds = view.At("seeds");
    return SeedUse{.report = RangeFrom(seeds.At("report")),
                   .selection = RangeFrom(seeds.At("selection"))};
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string SeedText(const SeedUse& use) {
  if (use.report.n == 0) return "";
  if (use.selection.n == 0) {
    return fmt::format("Test seeds {}; the training was evaluated on none.", Listed(use.report));
  }
  if (use.n_shared() == 0) {
    return fmt::format("Test seeds {}; the training was evaluated on others, {}.",
                       Listed(use.report), Listed(use.selection));
  }
  return fmt::format(
      "WARNING: {} of the {} test seeds are seeds on which the training was evaluated ({}). A "
      "checkpoint that was chosen by its score there looks better than it is: report another "
      "env_runner.test_start_seed.",
      use.n_shared(), use.report.n, Listed(use.selection));
}

}  // namespace dp_bench::run
