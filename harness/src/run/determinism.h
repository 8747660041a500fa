// Whether the outcomes of an env are a function of the seed, as an evaluation notes it in its
// manifest ("determinism"). rollout/certify_determinism.h finds it out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace dp_bench::run {

inline constexpr const char* kDeterminismKey = "determinism";

/// Where two episodes of one seed and the same actions first differ.
struct SeedDifference {
  std::string condition;  // of the second episode: "after other seeds"
  int step = 0;           // 0: the observation after Reset
  std::string key;        // an observation key, "reward", "terminated", "success" or a metric
};

struct DeterminismCertificate {
  std::uint64_t first_seed = 0;
  int n_seeds = 0;
  int n_steps = 0;         // of each episode, at most
  std::string trace_hash;  // SHA-256 of the episodes of a fresh env
  std::optional<SeedDifference> difference;
};

nlohmann::json ToJson(const DeterminismCertificate& certificate);

/// "outcomes are a function of the seed: verified (...)", or "outcomes are not a function of the
/// seed: ..." with the condition, step and key of the first difference.
std::string Describe(const DeterminismCertificate& certificate);

/// The certificate in a manifest's text; none if it has none. Throws Error{kData} if it is invalid.
std::optional<DeterminismCertificate> DeterminismOf(const std::string& manifest);

}  // namespace dp_bench::run
