// Did the success rate drop? A test on paired seeds that may stop early. It looks at the evidence
// after every block of seeds, and the error rates still hold.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compare/change_evidence.h"

namespace dp_bench::compare {

/// How the outcomes of the seeds changed so far, from the old policy to the new one.
struct OutcomeCounts {
  int n_lost = 0;    // success before, not now
  int n_gained = 0;  // success now, not before
  int n_same = 0;

  int n_pairs() const { return n_lost + n_gained + n_same; }
  bool operator==(const OutcomeCounts&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OutcomeCounts, n_lost, n_gained, n_same)

/// ln E against "no drop", which means that at most half of the changed seeds are lost. This is
/// McNemar's question with a uniform prior on (1/2, 1) for the share of lost seeds.
double LogFailEvidence(const OutcomeCounts& counts);

/// The drop of the success rate or of the mean score, old minus new, in [-1, 1].
struct DropInterval {
  double drop = 0.0;  // observed; 0 without pairs
  double low = -1.0;
  double high = 1.0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DropInterval, drop, low, high)

/// The mean drops that the evidence of `changes`, new minus old and each in [-1, 1], does not rule
/// out. They cover the true drop at all looks together with a probability of at least 95 %. The
/// interval is wider than one for a single look.
DropInterval AnytimeDropInterval(std::span<const double> changes);

// Evidence about several tasks at once, from one e-value of each. It holds for any dependence
// between the tasks: they may share seeds, policy and env. All values are natural logarithms.

/// ln of the mean of the e-values. The mean is an e-value against "no task dropped" (Vovk and Wang
/// 2021, "E-values: calibration, combination and applications"). Needs at least one value.
double LogMeanEvidence(std::span<const double> log_evidence);

/// The e-BH procedure (Wang and Ramdas 2022, "False discovery rate control with e-values"): which
/// tasks are shown to have dropped, in the order given. On average, at most a share `alpha` (in (0,
/// 1)) of the named tasks did not drop. If a task is named, the mean evidence is at least 1/alpha.
std::vector<bool> NameDrops(std::span<const double> log_evidence, double alpha);

enum class Verdict {
  kPass,          // shown: the drop is smaller than the margin
  kFail,          // shown: there is a drop
  kInconclusive,  // neither is shown so far
};

struct SequentialTestConfig {
  double margin = 0.10;  // the drop that PASS excludes, in (0, 1)
  double alpha = 0.01;   // bounds the probability of FAIL when there is no drop
  double beta = 0.05;    // bounds the probability of PASS when the drop is the margin or more
  int max_pairs = 400;   // INCONCLUSIVE after this many
  int block_size = 10;   // pairs between two looks
  /// What may drop: the success rate, or the mean of another score of graded_score.h.
  std::string decided_by = "success";

  /// Short enough for every pull request; finds breaks of 15 to 20 points.
  static SequentialTestConfig PullRequest() { return {}; }
  /// For a night or a release; finds drops of 5 to 10 points.
  static SequentialTestConfig Nightly() { return {.margin = 0.05, .max_pairs = 1500}; }

  bool operator==(const SequentialTestConfig&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SequentialTestConfig, margin, alpha, beta, max_pairs, block_size,
                                   decided_by)

/// What one look at the evidence saw.
struct Look {
  OutcomeCounts counts;
  double log_fail_evidence = 0.0;  // ln E against "no drop"
  double log_pass_evidence = 0.0;  // ln E against "a drop of the margin or more"
};

/// When the evidence is enough.
class SequentialRule {
 public:
  /// Throws Error{kConfig} naming the field that is out of range.
  explicit SequentialRule(const SequentialTestConfig& config);

  /// FAIL wins if both thresholds are reached.
  Verdict Judge(const Look& look) const;

 private:
  double log_fail_threshold_;
  double log_pass_threshold_;
};

/// What the pairs say so far: their outcomes, or the score that decides.
class SequentialEvidence {
 public:
  explicit SequentialEvidence(const SequentialTestConfig& config);

  /// `change`: new minus old score in [-1, 1]; not used if success decides.
  void Add(bool old_succeeded, bool new_succeeded, double change);

  /// By what decides, or by success alone.
  Look Examine() const;
  Look ExamineSuccess() const;

  const OutcomeCounts& counts() const { return counts_; }
  bool is_graded() const { return graded_.has_value(); }

 private:
  struct Graded {
    FailEvidence fail;
    PassEvidence pass;
  };

  OutcomeCounts counts_;
  PassEvidence pass_of_success_;
  std::optional<Graded> graded_;  // none if decided by success
};

/// One test in progress. Add pairs in the order of the seed list. Short episodes finish first, so
/// the order of completion would bias the test. For one thread.
class SequentialTest {
 public:
  explicit SequentialTest(const SequentialTestConfig& config);

  /// Counts the next seed of the list. Not allowed after is_finished(). `change`, new minus old
  /// score in [-1, 1], decides unless the test is decided by success.
  void Add(bool old_succeeded, bool new_succeeded, double change = 0.0);

  /// The test has decided, or has reached max_pairs.
  bool is_finished() const;
  Verdict verdict() const { return verdict_; }

  const SequentialTestConfig& config() const { return config_; }
  /// All pairs, including those since the last look.
  const OutcomeCounts& counts() const { return evidence_.counts(); }
  bool is_graded() const { return evidence_.is_graded(); }
  /// The drop that the evidence does not rule out, of the success rate or of the score.
  DropInterval drop() const { return AnytimeDropInterval(changes_); }
  /// One entry per complete block.
  const std::vector<Look>& looks() const { return looks_; }
  /// What the last look would have been if success decided.
  const Look& last_by_success() const { return last_by_success_; }

 private:
  SequentialTestConfig config_;
  SequentialRule rule_;
  SequentialEvidence evidence_;
  std::vector<double> changes_;  // of what decides
  std::vector<Look> looks_;
  Look last_by_success_;
  Verdict verdict_ = Verdict::kInconclusive;
};

/// {format, config, counts, verdict, looks}
nlohmann::json ToJson(const SequentialTest& test);

}  // namespace dp_bench::compare
