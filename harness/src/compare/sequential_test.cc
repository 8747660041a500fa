#include "compare/sequential_test.h"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <numbers>
#include <numeric>

#include "compare/intervals.h"
#include "core/errors.h"

namespace dp_bench::compare {
namespace {

double LogFactorial(int n) { return boost::math::lgamma(n + 1.0); }

// The sum of C(n, j) / C(n, k) over j <= k, with n = k + other + 1. If k <= other, the terms
// decrease from 1.
double LowerTailOverLastTerm(int k, int other) {
  double term = 1.0;
  double sum = 1.0;
  for (int j = 1; j <= k && term > 1e-17 * sum; ++j) {
    term *= static_cast<double>(k - j + 1) / (other + 1 + j);
    sum += term;
  }
  return sum;
}

// The smallest margin D for which the evidence refutes "drop >= D"; it grows with D.
template <class LogEvidence>
double SmallestRefutedMargin(const LogEvidence& log_evidence) {
  const double threshold = std::log(2.0 / (1.0 - kConfidence));  // half of the error on each side
  double low = -1.0;
  double high = 1.0;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2.0;
    const bool is_refuted = log_evidence(middle) >= threshold;
    (is_refuted ? high : low) = middle;
  }
  return high;
}

double ChangeOf(bool old_succeeded, bool new_succeeded) {
  return static_cast<double>(new_succeeded) - static_cast<double>(old_succeeded);
}

using Json = nlohmann::json;

constexpr int kMaxPairs = 1 << 24;

const SequentialTestConfig& Checked(const SequentialTestConfig& config) {
  const auto require = [](bool is_in_range, const char* field, double value, const char* range) {
    if (is_in_range) return;
    throw ConfigError("{} of a sequential test is {}; expected a value {}", field, value, range);
  };
  const auto is_share = [](double value) { return value > 0.0 && value < 1.0; };
  require(is_share(config.margin), "margin", config.margin, "between 0 and 1");
  require(is_share(config.alpha), "alpha", config.alpha, "between 0 and 1");
  require(is_share(config.beta), "beta", config.beta, "between 0 and 1");
  require(config.max_pairs > 0 && config.max_pairs <= kMaxPairs, "max_pairs", config.max_pairs,
          "between 1 and 2^24");
  require(config.block_size > 0 && config.block_size <= kMaxPairs, "block_size", config.block_size,
          "between 1 and 2^24");
  return config;
}

}  // namespace

// With b lost, c gained and n = b + c + 1 the mixture over (1/2, 1) is
//   E = 2^n Beta(b + 1, c + 1) P[Bin(n, 1/2) <= b].
double LogFailEvidence(const OutcomeCounts& counts) {
  const int b = counts.n_lost;
  const int c = counts.n_gained;
  DPB_ASSERT(b >= 0 && c >= 0);
  // Beta(b + 1, c + 1) = 1 / ((c + 1) C(n, b)): the powers of two cancel
  if (b <= c) return std::log(LowerTailOverLastTerm(b, c) / (c + 1));

  // otherwise P is close to 1, and its complement P[Bin(n, 1/2) <= c] is exact
  const double n_ln_2 = (b + c + 1) * std::numbers::ln2;
  const double log_beta = LogFactorial(b) + LogFactorial(c) - LogFactorial(b + c + 1);
  const double complement =
      std::exp(-log_beta - std::log(b + 1.0) - n_ln_2) * LowerTailOverLastTerm(c, b);
  return n_ln_2 + log_beta + std::log1p(-complement);
}

DropInterval AnytimeDropInterval(std::span<const double> changes) {
  DropInterval interval;
  if (changes.empty()) return interval;
  const double sum = std::accumulate(changes.begin(), changes.end(), 0.0);
  interval.drop = -sum / static_cast<double>(changes.size());
  const auto evidence_of = [changes](double sign) {
    return [changes, sign](double margin) {
      PassEvidence evidence(margin);
      for (const double change : changes) evidence.Add(sign * change);
      return evidence.Log();
    };
  };
  interval.high = SmallestRefutedMargin(evidence_of(1.0));
  interval.low = -SmallestRefutedMargin(evidence_of(-1.0));
  return interval;
}

double LogMeanEvidence(std::span<const double> log_evidence) {
  DPB_ASSERT(!log_evidence.empty());
  const double largest = *std::max_element(log_evidence.begin(), log_evidence.end());
  double sum = 0.0;
  for (const double value : log_evidence) sum += std::exp(value - largest);
  return largest + std::log(sum / static_cast<double>(log_evidence.size()));
}

std::vector<bool> NameDrops(std::span<const double> log_evidence, double alpha) {
  DPB_ASSERT(alpha > 0.0 && alpha < 1.0);
  std::vector<double> sorted(log_evidence.begin(), log_evidence.end());
  std::sort(sorted.rbegin(), sorted.rend());
  // the largest k whose k-th largest e-value reaches K / (k alpha): the first k tasks are named
  const auto n = static_cast<double>(sorted.size());
  double smallest_named = INFINITY;
  for (std::size_t k = 1; k <= sorted.size(); ++k) {
    const double threshold = std::log(n / static_cast<double>(k)) - std::log(alpha);
    if (sorted[k - 1] >= threshold) smallest_named = sorted[k - 1];
  }
  std::vector<bool> is_named;
  for (const double value : log_evidence) is_named.push_back(value >= smallest_named);
  return is_named;
}

SequentialRule::SequentialRule(const SequentialTestConfig& config)
    : log_fail_threshold_(-std::log(Checked(config).alpha)),
      log_pass_threshold_(-std::log(config.beta)) {}

Verdict SequentialRule::Judge(const Look& look) const {
  if (look.log_fail_evidence >= log_fail_threshold_) return Verdict::kFail;
  if (look.log_pass_evidence >= log_pass_threshold_) return Verdict::kPass;
  return Verdict::kInconclusive;
}

SequentialEvidence::SequentialEvidence(const SequentialTestConfig& config)
    : pass_of_success_(config.margin) {
  if (config.decided_by == "success") return;
  graded_ = {FailEvidence(), PassEvidence(config.margin)};
}

void SequentialEvidence::Add(bool old_succeeded, bool new_succeeded, double change) {
  if (graded_) {
    graded_->fail.Add(change);
    graded_->pass.Add(change);
  }
  if (old_succeeded == new_succeeded) {
    ++counts_.n_same;
  } else {
    ++(old_succeeded ? counts_.n_lost : counts_.n_gained);
  }
  pass_of_success_.Add(ChangeOf(old_succeeded, new_succeeded));
}

Look SequentialEvidence::ExamineSuccess() const {
  return {.counts = counts_,
          .log_fail_evidence = LogFailEvidence(counts_),
          .log_pass_evidence = pass_of_success_.Log()};
}

Look SequentialEvidence::Examine() const {
  if (!graded_) return ExamineSuccess();
  return {.counts = counts_,
          .log_fail_evidence = graded_->fail.Log(),
          .log_pass_evidence = graded_->pass.Log()};
}

SequentialTest::SequentialTest(const SequentialTestConfig& config)
    : config_(config), rule_(config), evidence_(config) {}

void SequentialTest::Add(bool old_succeeded, bool new_succeeded, double change) {
  DPB_ASSERT(!is_finished());
  evidence_.Add(old_succeeded, new_succeeded, change);
  changes_.push_back(is_graded() ? change : ChangeOf(old_succeeded, new_succeeded));
  // looks happen only at complete blocks, so that a stop in between changes nothing
  if (counts().n_pairs() % config_.block_size != 0) return;
  looks_.push_back(evidence_.Examine());
  last_by_success_ = evidence_.ExamineSuccess();
  verdict_ = rule_.Judge(looks_.back());
}

bool SequentialTest::is_finished() const {
  return verdict_ != Verdict::kInconclusive || counts().n_pairs() >= config_.max_pairs;
}

Json ToJson(const SequentialTest& test) {
  constexpr std::array kVerdicts = {"PASS", "FAIL", "INCONCLUSIVE"};
  Json looks = Json::array();
  for (const Look& look : test.looks()) {
    Json row = look.counts;
    row["log_fail_evidence"] = look.log_fail_evidence;
    row["log_pass_evidence"] = look.log_pass_evidence;
    looks.push_back(row);
  }
  return {{"format", "dp_bench.sequential_test.v1"},
          {"config", test.config()},
          {"counts", test.counts()},
          {"verdict", kVerdicts.at(static_cast<std::size_t>(test.verdict()))},
          {"looks", looks}};
}

}  // namespace dp_bench::compare
