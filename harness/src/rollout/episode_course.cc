#include "rollout/episode_course.h"

#include <algorithm>

#include "dp_bench/error.h"

namespace dp_bench {

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
  // a new best moves the half way mark up, and lies above it itself
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

}  // namespace dp_bench
