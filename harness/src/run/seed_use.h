// The test seeds that a training was evaluated on, and those that a result is reported on. A
// checkpoint chosen by its score on some seeds looks better on them than it is, because lucky
// scores are chosen too.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace dp_bench::run {

/// The seeds first, first + 1, ... first + n - 1.
struct SeedRange {
  std::uint64_t first = 0;
  int n = 0;

  bool operator==(const SeedRange&) const = default;
};

/// The number of seeds in both.
int CountShared(const SeedRange& a, const SeedRange& b);

struct SeedUse {
  SeedRange report;     // test seeds of this evaluation
  SeedRange selection;  // of the evaluations during training; n = 0: none

  int n_shared() const { return CountShared(report, selection); }
  bool operator==(const SeedUse&) const = default;
};

/// The test seeds of an evaluation with this config.
SeedRange ReportSeeds(const nlohmann::json& config);

/// The test seeds of the evaluations during a training with this config. They start at
/// env_runner.selection_start_seed, or at test_start_seed in older configs without that key. None
/// without training.rollout_every.
SeedRange SelectionSeeds(const nlohmann::json& config);

nlohmann::json ToJson(const SeedUse& use);

/// The entry "seeds" of a manifest.json; none if it is missing.
std::optional<SeedUse> SeedUseOf(const std::string& manifest);

/// One or two sentences for the user, with a warning if seeds are shared.
std::string SeedText(const SeedUse& use);

}  // namespace dp_bench::run
