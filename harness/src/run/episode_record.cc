#include "run/episode_record.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "dp_bench/error.h"

namespace dp_bench::run {

namespace {

constexpr double kMargin = 0.05;          // of the range
constexpr double kConstantRange = 1e-4;   // as for the normalizer's zero_range_dims
constexpr double kConstantMargin = 1e-3;  // of the size; rounding and contact change it by less

double Margin(double low, double high) {
  if (high - low >= kConstantRange) return kMargin * (high - low);
  return kConstantMargin * std::max({1.0, std::abs(low), std::abs(high)});
}

}  // namespace

bool ObsRange::IsLeftBy(std::span<const float> values) const {
  DPB_ASSERT(values.size() == low.size() && values.size() == high.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double margin = Margin(low[i], high[i]);
    const double value = values[i];
    if (!(value >= low[i] - margin && value <= high[i] + margin)) return true;
  }
  return false;
}

bool IsPolicyFault(std::string_view failure_reason) {
  constexpr std::string_view kFaults[] = {
      "policy_timeout: ", "policy_disconnected: ", "policy_error: "};
  return std::ranges::any_of(kFaults, [&](std::string_view fault) {
    return failure_reason.find(fault) != std::string_view::npos;
  });
}

SplitSummary Summarize(std::span<const EpisodeRecord> records, std::string_view split) {
  SplitSummary summary;
  double score_sum = 0.0;
  for (const EpisodeRecord& record : records) {
    if (record.split != split) continue;
    ++summary.n_episodes;
    summary.n_success += record.success ? 1 : 0;
    summary.n_failed += record.failure_reason.has_value() ? 1 : 0;
    summary.n_policy_faults += IsPolicyFault(record.failure_reason.value_or("")) ? 1 : 0;
    summary.n_steps += record.n_steps;
    summary.n_stale_steps += record.n_stale_steps;
    summary.n_plans += record.n_plans;
    summary.n_late_plans += record.n_late_plans;
    score_sum += record.score;
  }
  if (summary.n_episodes > 0) {
    summary.mean_score = score_sum / summary.n_episodes;
    summary.success_rate = static_cast<double>(summary.n_success) / summary.n_episodes;
  }
  return summary;
}

void SuccessSteps::Add(int step, bool is_success) {
  at_end = is_success ? at_end + 1 : 0;
  longest = std::max(longest, at_end);
  if (is_success && first == 0) first = step;
}

EpisodeCourseKeeper::EpisodeCourseKeeper(std::span<const KeySpec> keys, const ObsRanges& ranges)
    : keys_(keys) {
  for (const KeySpec& key : keys) {
    const auto found = ranges.find(key.name);
    const bool is_judged = found != ranges.end() && key.type == KeyType::kLowDim;
    ranges_.push_back(is_judged ? &found->second : nullptr);
  }
}

void EpisodeCourseKeeper::Start() {
  course_ = {};
  n_steps_ = 0;
  best_reward_ = 0.0;
  last_above_ = 0;
}

void EpisodeCourseKeeper::AddStep(double reward, bool is_terminated) {
  ++n_steps_;
  if (n_steps_ == 1) course_.first_reward = reward;
  if (n_steps_ == 1 || reward > best_reward_) {
    best_reward_ = reward;
    course_.best_step = n_steps_;
  }
  // a new best raises the midpoint, and is above it
  if (reward > HalfWay()) last_above_ = n_steps_;
  course_.last_reward = reward;
  course_.is_terminated = is_terminated;
}

void EpisodeCourseKeeper::AddObservation(int key, std::span<const std::byte> frame) {
  const ObsRange* range = ranges_[static_cast<std::size_t>(key)];
  if (range == nullptr || course_.unseen_step) return;
  const std::span<const float> values(reinterpret_cast<const float*>(frame.data()),
                                      frame.size() / sizeof(float));
  if (!range->IsLeftBy(values)) return;
  course_.unseen_step = n_steps_;
  course_.unseen_key = keys_[static_cast<std::size_t>(key)].name;
}

EpisodeCourse EpisodeCourseKeeper::course() const {
  EpisodeCourse course = course_;
  if (course.last_reward < HalfWay()) course.lost_step = last_above_;
  return course;
}

}  // namespace dp_bench::run
