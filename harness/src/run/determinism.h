// What an evaluation notes in its manifest about its outcomes: the machines on which they are the
// same, bit for bit (ADR 0004, "outcome_class"), and whether they are a function of the seed
// ("determinism"). rollout/certify_determinism.h finds out the latter.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace dp_bench::run {

inline constexpr const char* kOutcomeClassKey = "outcome_class";

struct OutcomeConditions {
  std::string device;  // of the policy: "cpu", "cuda:0", or a backend: "openvino"
  std::string cpu;     // model
  bool has_avx2_and_fma = false;
  bool has_pictures = false;  // the policy observes some
};

/// "no images, x86-64 with AVX2 and FMA", "images, AMD EPYC", "no images, cuda:0, AMD EPYC".
/// It holds for policies built on dp_bench_policy; others may use operators of LibTorch that round
/// differently from processor to processor.
std::string OutcomeClass(const OutcomeConditions& conditions);

/// The class in a manifest's text; empty if it has none.
std::string OutcomeClassOf(const std::string& manifest);

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
