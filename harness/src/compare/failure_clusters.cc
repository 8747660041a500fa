#include "compare/failure_clusters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>

#include "core/median.h"

namespace dp_bench::compare {
namespace {

using Episodes = std::vector<const run::EpisodeRecord*>;

constexpr double kHardlyAny = 0.1;     // share of the way to the goal
constexpr double kNear = 0.05;         // share of the way to the goal
constexpr double kLastPart = 0.2;      // share of an episode in which a rising reward may rise on
constexpr double kMostEpisodes = 0.5;  // share of a cluster's episodes that must show a sign

// Name and meaning.
std::pair<std::string_view, std::string_view> TextOf(FailureKind kind) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTexts = {
      {{"failed to run", "env or policy broke; it counts as not successful"},
       {"ended early", "the env ended the episode without success: dropped, or beyond rescue"},
       {"never reached", "hardly any progress towards success"},
       {"diverged", "the episode made progress and lost more than half of it again"},
       {"timeout", "some progress that was kept, but no success before the steps ran out"},
       {"unknown", "recorded without the course of the rewards; evaluate again to classify them"}}};
  return kTexts.at(static_cast<std::size_t>(kind));
}

/// Values of the whole split that the classification needs.
struct SplitLevels {
  double goal = 1.0;  // the reward that solves the task
  Episodes successes = {};
};

// Kinds compare rewards with rewards; the score may be another metric.
double BestReward(const run::EpisodeRecord& record) {
  return record.course && record.course->best_reward ? *record.course->best_reward : record.score;
}

template <class Projection>
std::vector<double> Collect(const Episodes& episodes, const Projection& value_of) {
  std::vector<double> values;
  for (const run::EpisodeRecord* record : episodes) {
    if (const std::optional<double> value = value_of(*record)) values.push_back(*value);
  }
  return values;
}

SplitLevels LevelsOf(std::span<const run::EpisodeRecord> records, std::string_view split) {
  SplitLevels levels;
  double best = 1.0;
  std::vector<double> rewards;
  for (const run::EpisodeRecord& record : records) {
    if (record.split != split) continue;
    best = std::max(best, BestReward(record));
    if (!record.success) continue;
    levels.successes.push_back(&record);
    rewards.push_back(BestReward(record));
  }
  levels.goal = rewards.empty() ? best : core::Median(rewards);
  return levels;
}

FailureKind KindOf(const run::EpisodeRecord& record, double goal) {
  if (record.failure_reason) return FailureKind::kFailedToRun;
  if (!record.course) return FailureKind::kUnknown;
  const run::EpisodeCourse& course = *record.course;
  if (course.is_terminated) return FailureKind::kEndedEarly;
  const double way = std::max(0.0, goal - course.first_reward);
  // only before lost_step: progress that was never made cannot be lost
  if (BestReward(record) - course.first_reward < kHardlyAny * way)
    return FailureKind::kNeverReached;
  return course.lost_step ? FailureKind::kDiverged : FailureKind::kTimeout;
}

std::optional<double> UnseenStep(const run::EpisodeRecord& record) {
  if (!record.course || !record.course->unseen_step) return std::nullopt;
  return *record.course->unseen_step;
}

// The key that left its range in most of the episodes; the first by name if several do.
std::string UnseenKey(const Episodes& episodes) {
  std::map<std::string, int> counts;
  for (const run::EpisodeRecord* record : episodes) {
    if (UnseenStep(*record)) ++counts[record->course->unseen_key];
  }
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

std::string AtStep(const std::vector<double>& steps) {
  return fmt::format("at step {:.0f}{}", core::Median(steps), steps.size() > 1 ? " (median)" : "");
}

FailureSign UnseenSign(const Episodes& episodes, const Episodes& successes,
                       const std::vector<double>& steps) {
  std::string text =
      fmt::format("observation {} left the range of the training data {} in {} of {}",
                  UnseenKey(episodes), AtStep(steps), steps.size(), episodes.size());
  const std::size_t n_too = Collect(successes, UnseenStep).size();
  if (n_too > 0) {
    text += fmt::format("; in {} of {} successful ones too", n_too, successes.size());
  } else if (!successes.empty()) {
    text += fmt::format("; in 0 of {} successful ones", successes.size());
  }
  return {.step = core::Median(steps), .text = std::move(text)};
}

bool IsStillRising(const run::EpisodeRecord* record) {
  return record->course->best_step > (1.0 - kLastPart) * record->n_steps;
}

struct SignKind {
  const char* words;
  std::string never;  // the text for step 1; empty: the same as for other steps
  std::function<std::optional<double>(const run::EpisodeRecord&)> step_of;
};

std::vector<SignKind> SignsOf(FailureKind kind) {
  const auto end = [](const run::EpisodeRecord& record) {
    return std::optional<double>(record.n_steps);
  };
  const auto best = [](const run::EpisodeRecord& record) {
    return std::optional<double>(record.course->best_step);
  };
  const auto lost = [](const run::EpisodeRecord& record) {
    return std::optional<double>(record.course->lost_step);
  };
  const auto stopped = [](const run::EpisodeRecord& record) {
    return IsStillRising(&record) ? std::nullopt : std::optional<double>(record.course->best_step);
  };
  const SignKind best_sign = {"the reward stopped rising", "the reward never rose", best};
  switch (kind) {
    case FailureKind::kFailedToRun:
      return {{"the episode broke off", "", end}};
    case FailureKind::kEndedEarly:
      return {best_sign, {"the env ended the episode", "", end}};
    case FailureKind::kDiverged:
      return {best_sign, {"the reward fell below half of its rise for good", "", lost}};
    case FailureKind::kNeverReached:
      return {best_sign};
    case FailureKind::kTimeout:  // NoteOf counts the others
      return {{best_sign.words, best_sign.never, stopped}};
    case FailureKind::kUnknown:
      return {};
  }
  return {};
}

std::vector<FailureSign> Signs(const FailureCluster& cluster, const Episodes& successes) {
  std::vector<FailureSign> signs;
  for (const SignKind& sign : SignsOf(cluster.kind)) {
    const std::vector<double> steps = Collect(cluster.episodes, sign.step_of);
    if (steps.empty()) continue;
    const bool is_never = core::Median(steps) <= 1.0 && !sign.never.empty();
    std::string text = is_never ? sign.never : fmt::format("{} {}", sign.words, AtStep(steps));
    if (steps.size() < cluster.episodes.size()) {
      text += fmt::format(" in {} of {}", steps.size(), cluster.episodes.size());
    }
    signs.push_back({.step = core::Median(steps), .text = std::move(text)});
  }
  const std::vector<double> unseen = Collect(cluster.episodes, UnseenStep);
  const auto n = static_cast<double>(cluster.episodes.size());
  if (!unseen.empty() && static_cast<double>(unseen.size()) >= kMostEpisodes * n) {
    signs.push_back(UnseenSign(cluster.episodes, successes, unseen));
  }
  std::ranges::stable_sort(signs, {}, &FailureSign::step);
  return signs;
}

bool IsNear(const run::EpisodeRecord* record, double goal) {
  return goal - BestReward(*record) <= kNear * std::max(0.0, goal - record->course->first_reward);
}

std::string NoteOf(const FailureCluster& cluster, double goal) {
  if (cluster.kind != FailureKind::kTimeout) return "";
  const auto n = std::ssize(cluster.episodes);
  const auto n_rising = std::ranges::count_if(cluster.episodes, IsStillRising);
  const auto n_near = std::ranges::count_if(
      cluster.episodes, [&](const run::EpisodeRecord* record) { return IsNear(record, goal); });
  std::string note;
  if (n_rising > 0) {
    note = fmt::format(
        "the reward still rose in the last fifth of {} of {}: more steps may solve them", n_rising,
        n);
  } else {
    note = "none rose in the last fifth of the episode: more steps alone will not help";
  }
  if (n_near > 0) note += fmt::format("; {} came within 5 % of the way to success", n_near);
  return note;
}

}  // namespace

std::string_view NameOf(FailureKind kind) { return TextOf(kind).first; }

std::string_view MeaningOf(FailureKind kind) { return TextOf(kind).second; }

std::vector<FailureCluster> FailureClusters(std::span<const run::EpisodeRecord> records,
                                            std::string_view split) {
  const SplitLevels levels = LevelsOf(records, split);
  std::map<FailureKind, FailureCluster> by_kind;
  for (const run::EpisodeRecord& record : records) {
    if (record.split != split || record.success) continue;
    const FailureKind kind = KindOf(record, levels.goal);
    by_kind[kind].kind = kind;
    by_kind[kind].episodes.push_back(&record);
  }
  std::vector<FailureCluster> clusters;
  for (auto& [kind, cluster] : by_kind) {
    cluster.median_score =
        core::Median(Collect(cluster.episodes, [](const run::EpisodeRecord& record) {
          return std::optional<double>(record.score);
        }));
    cluster.signs = Signs(cluster, levels.successes);
    cluster.note = NoteOf(cluster, levels.goal);
    clusters.push_back(std::move(cluster));
  }
  std::ranges::stable_sort(clusters, std::ranges::greater(),
                           [](const FailureCluster& cluster) { return cluster.episodes.size(); });
  return clusters;
}

}  // namespace dp_bench::compare
