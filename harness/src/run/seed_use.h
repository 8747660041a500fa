// Which test seeds a training looked at, and which a result is reported on. A checkpoint chosen by
// its score on some seeds looks better on those than it is: the luck of the seeds was chosen too.
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

/// How many seeds are in both.
int CountShared(const SeedRange& a, const SeedRange& b);

struct SeedUse {
  SeedRange report;     // test seeds of this evaluation
  SeedRange selection;  // of the evaluations during the training; none with n = 0

  int n_shared() const { return CountShared(report, selection); }
  bool operator==(const SeedUse&) const = default;
};

/// The test seeds of an evaluation with this config.
SeedRange ReportSeeds(const nlohmann::json& config);

/// The test seeds that a training with this config evaluates: those from
/// env_runner.selection_start_seed on; of a config that is older than this key, those from
/// test_start_seed on. None without training.rollout_every.
SeedRange SelectionSeeds(const nlohmann::json& config);

nlohmann::json ToJson(const SeedUse& use);

/// The entry "seeds" of a manifest.json; nothing where the text has none.
std::optional<SeedUse> SeedUseOf(const std::string& manifest);

/// One or two sentences for people, a warning where seeds are shared.
std::string SeedText(const SeedUse& use);

}  // namespace dp_bench::run
