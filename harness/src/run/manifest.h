// What manifest.json says: the run's id, which seeds were used, and what is known about outcomes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::run {

// Run ids show whether files belong to one run. manifest.json has the id ("run_id") and the SHA-256
// of config.json. eval_log.json has the id and the SHA-256 of episodes.jsonl. The journal of an
// unfinished evaluation has the id. The id depends only on what the results depend on: running the
// same evaluation again, or resuming it, gives the same files.

inline constexpr const char* kRunIdKey = "run_id";
inline constexpr const char* kConfigHashKey = "config_sha256";      // of manifest.json
inline constexpr const char* kEpisodesHashKey = "episodes_sha256";  // of eval_log.json

/// Adds the run's id and the SHA-256 of `config`, the text of config.json, to `manifest`, a JSON
/// object. The id does not depend on training.resume, so that a resumed training keeps it, nor on
/// the machine, on where the checkpoint is and on certificates, so that shards of one evaluation
/// have the same.
std::string WithRunId(const std::string& manifest, const std::string& config);

/// The inverse of WithRunId.
std::string WithoutRunId(const std::string& manifest);

/// The part of a manifest without an id on which outcomes depend. Left out are the machine, where
/// the checkpoint is, certificates, and the seeds of the training's dataset.
nlohmann::json OutcomePart(nlohmann::json manifest);

/// A resolved config without the keys that differ between machines and on which no outcome
/// depends, such as env.params.python.
nlohmann::json WithoutMachineKeys(nlohmann::json config);

/// Writes the first two files of a run: manifest.json with the run's id and the hash of the config,
/// then config.json. Throws Error{kIo}.
void WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                  const std::string& config);

/// The text of manifest.json. Throws Error{kIo} if it cannot be read.
std::string ReadRunManifest(const std::filesystem::path& folder);

/// The SHA-256 of a checkpoint's manifest, which covers all its files.
std::string CheckpointHash(const std::filesystem::path& checkpoint);

/// The id in a manifest or an eval_log; empty if there is none (before version 0.2) or the text is
/// not a JSON object.
std::string RunIdOf(const std::string& json);

// The test seeds that a training was evaluated on, and those that a result is reported on. A
// checkpoint chosen by its score on some seeds looks better on them than it is, because lucky
// scores are chosen too. So does a policy on the seeds of episodes that it was trained on.

/// The seeds first, first + 1, ... first + n - 1.
struct SeedRange {
  std::uint64_t first = 0;
  int n = 0;

  std::uint64_t last() const { return first + static_cast<std::uint64_t>(n) - 1; }  // n > 0
  bool operator==(const SeedRange&) const = default;
};

/// The number of seeds in both.
int CountShared(const SeedRange& a, const SeedRange& b);

/// Each of the seeds once, in ascending ranges.
std::vector<SeedRange> RangesOf(std::vector<std::uint64_t> seeds);

struct SeedUse {
  SeedRange report;                            // test seeds of this evaluation
  SeedRange selection;                         // of the evaluations during training; n = 0: none
  std::vector<SeedRange> demonstrations = {};  // of the training's dataset, as far as it names them

  int n_shared() const { return CountShared(report, selection); }
  std::int64_t n_demonstrated() const;  // of `report`
  bool operator==(const SeedUse&) const = default;
};

/// The test seeds of an evaluation with this config.
SeedRange ReportSeeds(const nlohmann::json& config);

/// The test seeds of the evaluations during a training with this config: env_runner.n_selection of
/// them from selection_start_seed on, or, without these keys, those of ReportSeeds. None without
/// training.rollout_every.
SeedRange SelectionSeeds(const nlohmann::json& config);

nlohmann::json ToJson(const SeedUse& use);

/// The entry "seeds" of a manifest.json; none if it is missing.
std::optional<SeedUse> SeedUseOf(const std::string& manifest);

/// A few sentences for the user, with a warning if seeds are shared.
std::string SeedText(const SeedUse& use);

/// The part of SeedText about episodes of the training's dataset; empty if none has a test seed.
std::string DemonstrationText(const SeedUse& use);

// What an evaluation notes about its outcomes: the machines on which they are the same, bit for bit
// (ADR 0004, "outcome_class"), and whether they are a function of the seed ("determinism").
// rollout/certify_determinism.h finds out the latter.

inline constexpr const char* kOutcomeClassKey = "outcome_class";

struct OutcomeConditions {
  std::string device;  // of the policy: "cpu", "NVIDIA H200", or a backend: "openvino"
  std::string cpu;     // model
  bool has_avx2_and_fma = false;
  bool has_images = false;  // the policy observes some
};

/// "no pictures, x86-64 with AVX2 and FMA", "pictures, AMD EPYC", "no pictures, NVIDIA H200, AMD
/// EPYC". It holds for policies built on dp_bench_policy; others may use operators of LibTorch that
/// round differently from processor to processor.
std::string OutcomeClass(const OutcomeConditions& conditions);

/// The class in a manifest's text; empty if it has none.
std::string OutcomeClassOf(const std::string& manifest);

/// In the message that refuses to continue a run with another manifest; `suite` looks for it.
inline constexpr std::string_view kBegunWithAnother = "was begun with another";

inline constexpr const char* kDeterminismKey = "determinism";
inline constexpr const char* kPolicyDeterminismKey = "policy_determinism";  // of a policy of others

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
