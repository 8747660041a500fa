#include "compare/sequential_test.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "dp_bench/error.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

constexpr const char* kStateFormat = "dp_bench.sequential_test.v1";
constexpr int kMaxPairs = 1 << 24;

const SequentialTestConfig& Checked(const SequentialTestConfig& config) {
  const auto require = [](bool is_in_range, const char* field, double value, const char* range) {
    if (is_in_range) return;
    throw Error(
        ErrorCode::kConfig,
        fmt::format("{} of a sequential test is {}; expected a value {}", field, value, range));
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

Json CountsToJson(const OutcomeCounts& counts) {
  return {{"n_lost", counts.n_lost}, {"n_gained", counts.n_gained}, {"n_same", counts.n_same}};
}

SequentialTestConfig ConfigFrom(const core::JsonView& json) {
  return {.margin = json.Get<double>("margin"),
          .alpha = json.Get<double>("alpha"),
          .beta = json.Get<double>("beta"),
          .max_pairs = json.Get<int>("max_pairs"),
          .block_size = json.Get<int>("block_size")};
}

[[noreturn]] void Refuse(const std::string& fault) {
  throw Error(ErrorCode::kData,
              "the state of a sequential test cannot be continued: " + fault +
                  ". Start the test again; the seeds that were run need not be run again.");
}

OutcomeCounts CountsFrom(const core::JsonView& json) {
  const auto count = [&json](const char* key) {
    const auto value = json.Get<std::int64_t>(key);
    if (value < 0 || value > kMaxPairs) Refuse(fmt::format("{} is {}", key, value));
    return static_cast<int>(value);
  };
  return {.n_lost = count("n_lost"), .n_gained = count("n_gained"), .n_same = count("n_same")};
}

bool GrewTo(const OutcomeCounts& counts, const OutcomeCounts& before, int n_pairs) {
  return counts.n_lost >= before.n_lost && counts.n_gained >= before.n_gained &&
         counts.n_same >= before.n_same && counts.n_pairs() == n_pairs;
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kInconclusive:
      break;
  }
  return "INCONCLUSIVE";
}

SequentialRule::SequentialRule(const SequentialTestConfig& config)
    : log_fail_threshold_(-std::log(Checked(config).alpha)),
      log_pass_threshold_(-std::log(config.beta)),
      pass_evidence_(config.margin) {}

Look SequentialRule::Examine(const OutcomeCounts& counts) const {
  return {.counts = counts,
          .log_fail_evidence = LogFailEvidence(counts),
          .log_pass_evidence = pass_evidence_.Log(counts)};
}

Verdict SequentialRule::Judge(const Look& look) const {
  if (look.log_fail_evidence >= log_fail_threshold_) return Verdict::kFail;
  if (look.log_pass_evidence >= log_pass_threshold_) return Verdict::kPass;
  return Verdict::kInconclusive;
}

SequentialTest::SequentialTest(const SequentialTestConfig& config)
    : config_(config), rule_(config) {}

void SequentialTest::Add(bool old_succeeded, bool new_succeeded) {
  DPB_ASSERT(!is_finished());
  if (old_succeeded == new_succeeded) {
    ++counts_.n_same;
  } else {
    ++(old_succeeded ? counts_.n_lost : counts_.n_gained);
  }
  // looks happen only at complete blocks, so that a stop in between changes nothing
  if (counts_.n_pairs() % config_.block_size == 0) TakeLook();
}

void SequentialTest::TakeLook() {
  looks_.push_back(rule_.Examine(counts_));
  verdict_ = rule_.Judge(looks_.back());
}

bool SequentialTest::is_finished() const {
  return verdict_ != Verdict::kInconclusive || counts_.n_pairs() >= config_.max_pairs;
}

void SequentialTest::ContinueTo(int max_pairs) {
  SequentialTestConfig longer = config_;
  longer.max_pairs = max_pairs;
  config_.max_pairs = Checked(longer).max_pairs;
  DPB_ASSERT(counts_.n_pairs() <= max_pairs);
}

Json SequentialTest::ToJson() const {
  Json looks = Json::array();
  for (const Look& look : looks_) {
    Json row = CountsToJson(look.counts);
    row["log_fail_evidence"] = look.log_fail_evidence;
    row["log_pass_evidence"] = look.log_pass_evidence;
    looks.push_back(row);
  }
  return {{"format", kStateFormat},
          {"config",
           {{"margin", config_.margin},
            {"alpha", config_.alpha},
            {"beta", config_.beta},
            {"max_pairs", config_.max_pairs},
            {"block_size", config_.block_size}}},
          {"counts", CountsToJson(counts_)},
          {"verdict", VerdictName(verdict_)},
          {"looks", looks}};
}

// The evidence is a function of the counts, so it is recomputed instead of trusted.
SequentialTest SequentialTest::FromJson(const Json& json) {
  const core::JsonView state(json, "the state of a sequential test cannot be continued");
  if (state.Get<std::string>("format") != kStateFormat) {
    Refuse("its format is not " + std::string(kStateFormat));
  }
  try {
    SequentialTest test(ConfigFrom(state.At("config")));
    for (const core::JsonView& row : state.Elements("looks")) {
      const OutcomeCounts counts = CountsFrom(row);
      const int n_pairs = test.counts_.n_pairs() + test.config_.block_size;
      if (test.is_finished() || !GrewTo(counts, test.counts_, n_pairs)) {
        Refuse(fmt::format("look {} does not follow from the one before", test.looks_.size() + 1));
      }
      test.counts_ = counts;
      test.TakeLook();
    }
    const OutcomeCounts counts = CountsFrom(state.At("counts"));
    const int n_since_look = counts.n_pairs() - test.counts_.n_pairs();
    if (n_since_look < 0 || n_since_look >= test.config_.block_size ||
        (n_since_look > 0 && test.is_finished()) ||
        !GrewTo(counts, test.counts_, counts.n_pairs())) {
      Refuse("its counts do not follow from its looks");
    }
    test.counts_ = counts;
    const auto verdict = state.Get<std::string>("verdict");
    if (verdict != VerdictName(test.verdict_)) {
      Refuse(fmt::format("its verdict is \"{}\", its counts say {}", verdict,
                         VerdictName(test.verdict_)));
    }
    return test;
  } catch (const Error& fault) {
    if (fault.code() == ErrorCode::kConfig) Refuse(fault.what());
    throw;
  }
}

}  // namespace dp_bench::compare
