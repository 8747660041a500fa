// Did the success rate drop? A test on paired seeds that may stop early. It looks at the evidence
// after every block of seeds, and the error rates still hold.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "compare/drop_evidence.h"

namespace dp_bench::compare {

enum class Verdict {
  kPass,          // shown: the drop is smaller than the margin
  kFail,          // shown: there is a drop
  kInconclusive,  // neither is shown so far
};

/// "PASS", "FAIL", "INCONCLUSIVE"
std::string_view VerdictName(Verdict verdict);

struct SequentialTestConfig {
  double margin = 0.10;  // the drop that PASS excludes, in (0, 1)
  double alpha = 0.01;   // bounds the probability of FAIL when there is no drop
  double beta = 0.05;    // bounds the probability of PASS when the drop is the margin or more
  int max_pairs = 400;   // INCONCLUSIVE after this many
  int block_size = 10;   // pairs between two looks

  /// Short enough for every pull request; finds breaks of 15 to 20 points.
  static SequentialTestConfig PullRequest() { return {}; }
  /// For a night or a release; finds drops of 5 to 10 points.
  static SequentialTestConfig Nightly() { return {.margin = 0.05, .max_pairs = 1500}; }

  bool operator==(const SequentialTestConfig&) const = default;
};

/// What one look at the evidence saw.
struct Look {
  OutcomeCounts counts;
  double log_fail_evidence = 0.0;  // ln E against "no drop"
  double log_pass_evidence = 0.0;  // ln E against "a drop of the margin or more"
};

/// The rule of the test, on counts alone.
class SequentialRule {
 public:
  /// Throws Error{kConfig} naming the field that is out of range.
  explicit SequentialRule(const SequentialTestConfig& config);

  Look Examine(const OutcomeCounts& counts) const;

  /// FAIL wins if both thresholds are reached.
  Verdict Judge(const Look& look) const;

 private:
  double log_fail_threshold_;
  double log_pass_threshold_;
  PassEvidence pass_evidence_;
};

/// One test in progress. Add pairs in the order of the seed list. Short episodes finish first, so
/// the order of completion would bias the test. For one thread.
class SequentialTest {
 public:
  explicit SequentialTest(const SequentialTestConfig& config);

  /// Continues a test from ToJson, with the same numbers as without the stop. Throws Error{kData}
  /// if `state` is not the state of a test.
  static SequentialTest FromJson(const nlohmann::json& state);
  nlohmann::json ToJson() const;

  /// Counts the next seed of the list. Not allowed after is_finished().
  void Add(bool old_succeeded, bool new_succeeded);

  /// The test has decided, or has reached max_pairs.
  bool is_finished() const;
  Verdict verdict() const { return verdict_; }

  /// Raises max_pairs, so that an INCONCLUSIVE test can continue. It must not be less than the
  /// number of pairs counted.
  void ContinueTo(int max_pairs);

  const SequentialTestConfig& config() const { return config_; }
  /// All pairs, including those since the last look.
  const OutcomeCounts& counts() const { return counts_; }
  /// One entry per complete block.
  const std::vector<Look>& looks() const { return looks_; }

 private:
  void TakeLook();

  SequentialTestConfig config_;
  SequentialRule rule_;
  OutcomeCounts counts_;
  std::vector<Look> looks_;
  Verdict verdict_ = Verdict::kInconclusive;
};

}  // namespace dp_bench::compare
