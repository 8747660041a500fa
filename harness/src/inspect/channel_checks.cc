// See channel_checks.h.
#include "inspect/channel_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "inspect/usual_value.h"

namespace dp_bench::inspect {
namespace {

constexpr double kSmallestSpread = 0.02;      // of the usual range of a channel
constexpr std::size_t kMinLevels = 3;         // fewer: a switch, or a position and its mirror image
constexpr double kMaxLag = 0.5;               // of a target's follower, relative to its motion
constexpr double kSmallestLagSpread = 0.25;   // of the smallest spread of values
constexpr double kClearlyNearer = 0.5;        // times the distance of the usual follower
constexpr std::size_t kMaxPairs = 4;          // listed
constexpr std::int64_t kMaxSamples = 64;      // steps of an episode that show who follows
constexpr std::int64_t kMaxForPartner = 200;  // episodes that show which channel follows

// A channel, and the one that it is in this episode.
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

// Gives each of `channels` one of its candidates, the earlier ones first, and no candidate twice
// (Kuhn's augmenting paths). Empty if that is not possible.
class Assignment {
 public:
  void Add(std::size_t channel, std::vector<std::size_t> candidates) {
    channels_.push_back(channel);
    candidates_.push_back(std::move(candidates));
  }

  Pairs Solve() {
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      std::set<std::size_t> tried;
      if (!Place(i, &tried)) return {};
    }
    Pairs pairs;
    for (const auto& [candidate, i] : owner_) pairs.emplace_back(channels_[i], candidate);
    std::ranges::sort(pairs);
    return pairs;
  }

 private:
  bool Place(std::size_t i, std::set<std::size_t>* tried) {
    for (const std::size_t candidate : candidates_[i]) {
      if (!tried->insert(candidate).second) continue;
      const auto owner = owner_.find(candidate);
      if (owner != owner_.end() && !Place(owner->second, tried)) continue;
      owner_[candidate] = i;
      return true;
    }
    return false;
  }

  std::vector<std::size_t> channels_;
  std::vector<std::vector<std::size_t>> candidates_;
  std::map<std::size_t, std::size_t> owner_;  // of a candidate: the index of a channel
};

// Those of `channels` that `distance` allows (it returns none for others), the nearest first.
template <class Distance>
std::vector<std::size_t> Nearest(const std::vector<std::size_t>& channels,
                                 const Distance& distance) {
  std::vector<std::pair<double, std::size_t>> near;
  for (const std::size_t channel : channels) {
    if (const std::optional<double> d = distance(channel)) near.emplace_back(*d, channel);
  }
  std::ranges::sort(near);
  std::vector<std::size_t> nearest;
  for (const auto& [d, channel] : near) nearest.push_back(channel);
  return nearest;
}

// What counts as no deviation: a part of the usual range of the channels that change. Zero if none
// does.
double SmallestDeviation(const Signal& signal) {
  std::vector<double> ranges;
  for (std::int64_t d = 0; d < signal.dim; ++d) {
    const std::vector<float> column = signal.Column(d);
    const auto [low, high] = std::ranges::minmax(column);
    if (high > low) ranges.push_back(static_cast<double>(high) - static_cast<double>(low));
  }
  return ranges.empty() ? 0.0 : kSmallestSpread * MedianOf(std::move(ranges));
}

// The values that the channels of a signal begin episodes with.
class FirstValues {
 public:
  FirstValues(const Demonstrations& data, const Signal& signal) {
    const double smallest = SmallestDeviation(signal);
    if (smallest <= 0.0) return;
    for (std::int64_t d = 0; d < signal.dim; ++d) {
      std::vector<double>& values = first_.emplace_back();
      for (std::int64_t episode = 0; episode < data.n_episodes(); ++episode) {
        values.push_back(signal.at(data.EpisodeBegin(episode), d));
      }
      usual_.push_back(UsualOf(values, smallest));
      channels_.push_back(static_cast<std::size_t>(d));
    }
  }

  bool TellChannelsApart() const { return CountLevels(channels_) >= kMinLevels; }

  // The channels that begin an episode where others usually do; none if not all that begin at an
  // unusual value are explained by that.
  Pairs Exchanged(std::int64_t episode) const {
    const auto e = static_cast<std::size_t>(episode);
    std::vector<std::size_t> misplaced;
    for (const std::size_t d : channels_) {
      if (usual_[d].Distance(first_[d][e]) > kFarFromUsual) misplaced.push_back(d);
    }
    if (CountLevels(misplaced) < kMinLevels) return {};
    Assignment assignment;
    for (const std::size_t d : misplaced) {
      const auto distance = [&](std::size_t other) -> std::optional<double> {
        const double found = usual_[other].Distance(first_[d][e]);
        return other != d && found <= kNearUsual ? std::optional(found) : std::nullopt;
      };
      assignment.Add(d, Nearest(misplaced, distance));
    }
    return assignment.Solve();
  }

 private:
  // How many clearly different values these channels usually begin with.
  std::size_t CountLevels(const std::vector<std::size_t>& channels) const {
    std::vector<UsualValue> sorted;
    for (const std::size_t d : channels) sorted.push_back(usual_[d]);
    std::ranges::sort(sorted, {}, &UsualValue::median);
    std::size_t n = sorted.empty() ? 0 : 1;
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      const UsualValue& below = sorted[i - 1];
      const bool is_apart = below.Distance(sorted[i].median) > kFarFromUsual &&
                            sorted[i].Distance(below.median) > kFarFromUsual;
      n += is_apart ? 1 : 0;
    }
    return n;
  }

  std::vector<std::size_t> channels_;
  std::vector<std::vector<double>> first_;  // [dim][episode]
  std::vector<UsualValue> usual_;           // [dim]; all are empty if no channel changes
};

// Which observed channel follows each action, if the actions are targets for the observed values.
class Followers {
 public:
  Followers(const Demonstrations& data, const Signal& signal) : data_(data), signal_(signal) {
    for (std::int64_t s = 0; s < signal.dim; ++s) observed_.push_back(static_cast<std::size_t>(s));
    const double smallest = SmallestDeviation(data.action());
    if (smallest <= 0.0) return;
    std::map<std::size_t, int> n_followed;
    std::vector<Follower> followers;
    for (std::int64_t d = 0; d < data.action().dim; ++d) {
      followers.push_back(FollowerOf(static_cast<std::size_t>(d)));
      ++n_followed[followers.back().observed];
    }
    for (Follower& follower : followers) {
      if (n_followed[follower.observed] > 1 || !IsClose(follower, smallest)) continue;
      follower.usual = UsualOf(Distances(follower), kSmallestLagSpread * smallest);
      follower.near =
          follower.usual.median + kNearUsual * std::max(follower.usual.deviation, smallest);
      followers_.push_back(follower);
    }
  }

  bool TellChannelsApart() const { return followers_.size() > 1; }

  // The actions that another channel follows in an episode; none if not all actions without their
  // usual follower have another one.
  Pairs Exchanged(std::int64_t episode) const {
    Assignment assignment;
    int n_misplaced = 0;
    for (const Follower& follower : followers_) {
      const double own = Distance(episode, follower.action, follower.observed);
      if (own - follower.usual.median <= kFarFromUsual * follower.usual.deviation) continue;
      ++n_misplaced;
      const double nearest = std::min(kClearlyNearer * own, follower.near);
      const auto distance = [&](std::size_t other) -> std::optional<double> {
        const double found = Distance(episode, follower.action, other);
        return found <= nearest ? std::optional(found) : std::nullopt;
      };
      assignment.Add(follower.action, Nearest(observed_, distance));
    }
    return n_misplaced > 1 ? assignment.Solve() : Pairs();
  }

  std::size_t UsualFollower(std::size_t action) const {
    return std::ranges::find(followers_, action, &Follower::action)->observed;
  }

 private:
  struct Follower {
    std::size_t action = 0;
    std::size_t observed = 0;
    double distance = 0.0;  // median of the episodes that were used to find it
    UsualValue usual = {};  // distance
    double near = 0.0;      // a distance that another channel may have
  };

  // The steps of an episode that are compared.
  std::vector<std::int64_t> Samples(std::int64_t episode) const {
    const std::int64_t begin = data_.EpisodeBegin(episode);
    std::vector<std::int64_t> steps = Spread(data_.EpisodeEnd(episode) - begin, kMaxSamples);
    for (std::int64_t& step : steps) step += begin;
    return steps;
  }

  // The mean distance of an action from an observed value.
  double Distance(std::int64_t episode, std::size_t action, std::size_t observed) const {
    const std::vector<std::int64_t> steps = Samples(episode);
    double sum = 0.0;
    for (const std::int64_t step : steps) {
      sum += std::abs(static_cast<double>(data_.action().at(step, std::int64_t(action))) -
                      static_cast<double>(signal_.at(step, std::int64_t(observed))));
    }
    return sum / static_cast<double>(steps.size());
  }

  // The mean distance of an observed value from its mean.
  double Motion(std::int64_t episode, std::size_t observed) const {
    const std::vector<std::int64_t> steps = Samples(episode);
    const auto value = [&](std::int64_t step) {
      return static_cast<double>(signal_.at(step, static_cast<std::int64_t>(observed)));
    };
    double mean = 0.0;
    for (const std::int64_t step : steps) mean += value(step) / static_cast<double>(steps.size());
    double sum = 0.0;
    for (const std::int64_t step : steps) sum += std::abs(value(step) - mean);
    return sum / static_cast<double>(steps.size());
  }

  // The median of a number of an episode over a part of the episodes.
  template <class Value>
  double Median(const Value& value) const {
    std::vector<double> values;
    for (const std::int64_t episode : Spread(data_.n_episodes(), kMaxForPartner)) {
      values.push_back(value(episode));
    }
    return MedianOf(std::move(values));
  }

  Follower FollowerOf(std::size_t action) const {
    Follower best = {.action = action};
    for (const std::size_t observed : observed_) {
      const double distance =
          Median([&](std::int64_t episode) { return Distance(episode, action, observed); });
      if (observed > 0 && distance >= best.distance) continue;
      best.observed = observed;
      best.distance = distance;
    }
    return best;
  }

  // Actions that are no targets, such as velocities, are about as far from the observed values as
  // these move.
  bool IsClose(const Follower& follower, double smallest) const {
    const double motion =
        Median([&](std::int64_t episode) { return Motion(episode, follower.observed); });
    return follower.distance <= std::max(kMaxLag * motion, smallest);
  }

  std::vector<double> Distances(const Follower& follower) const {
    std::vector<double> distances;
    for (std::int64_t episode = 0; episode < data_.n_episodes(); ++episode) {
      distances.push_back(Distance(episode, follower.action, follower.observed));
    }
    return distances;
  }

  const Demonstrations& data_;
  const Signal& signal_;
  std::vector<std::size_t> observed_;  // all channels of the signal
  std::vector<Follower> followers_;    // of the actions that have one of their own
};

// The first of `parts`, as a list.
std::string ListPairs(std::vector<std::string> parts) {
  const bool is_cut = parts.size() > kMaxPairs;
  if (is_cut) parts.resize(kMaxPairs);
  return fmt::format("{}{}", fmt::join(parts, ", "), is_cut ? ", ..." : "");
}

// Collects the episodes that the signs name.
class OrderFaults {
 public:
  explicit OrderFaults(std::int64_t n_episodes) : n_episodes_(n_episodes) {}

  void Add(const Signal& signal, const FirstValues& first_values) {
    is_decided_ = is_decided_ || first_values.TellChannelsApart();
    AddEpisodes(signal.name, first_values, [](std::size_t channel, std::size_t other) {
      return fmt::format("[{}] has the values of [{}]", channel, other);
    });
  }

  void Add(const Signal& signal, const Followers& followers) {
    is_decided_ = is_decided_ || followers.TellChannelsApart();
    AddEpisodes("action", followers, [&](std::size_t action, std::size_t other) {
      return fmt::format("[{}] belongs to '{}'[{}] instead of [{}]", action, signal.name, other,
                         followers.UsualFollower(action));
    });
  }

  bool is_decided() const { return is_decided_; }
  const std::vector<std::string>& runs() const { return runs_; }

 private:
  // Leaves out episodes that were named before.
  template <class Sign, class Describe>
  void AddEpisodes(const std::string& key, const Sign& sign, const Describe& describe) {
    std::vector<UnusualEpisode> found;
    for (std::int64_t episode = 0; episode < n_episodes_; ++episode) {
      if (named_.contains({key, episode})) continue;
      std::vector<std::string> parts;
      for (const auto& [channel, other] : sign.Exchanged(episode)) {
        parts.push_back(describe(channel, other));
      }
      if (parts.empty()) continue;
      found.push_back({.episode = episode, .what = ListPairs(std::move(parts))});
      named_.insert({key, episode});
    }
    const std::vector<std::string> runs = DescribeRuns(key, found);
    runs_.insert(runs_.end(), runs.begin(), runs.end());
  }

  std::int64_t n_episodes_ = 0;
  bool is_decided_ = false;
  std::set<std::pair<std::string, std::int64_t>> named_;
  std::vector<std::string> runs_;
};

}  // namespace

Finding CheckChannelOrder(const Demonstrations& data) {
  const Finding hypothesis = {.id = "data.mixed_channel_order",
                              .claim = "episodes have their numbers in another order",
                              .advice =
                                  "bring the channels of these episodes into the order of "
                                  "the others, or drop the episodes",
                              .certainty = Certainty::kLikely};
  if (data.n_episodes() < kMinUsualEpisodes) {
    return LeaveOpen(hypothesis, fmt::format("fewer than {} episodes", kMinUsualEpisodes));
  }
  OrderFaults faults(data.n_episodes());
  for (const Signal& signal : data.signals) faults.Add(signal, FirstValues(data, signal));
  for (const Signal& signal : data.signals) {
    if (signal.name != "action") faults.Add(signal, Followers(data, signal));
  }
  if (!faults.is_decided() && faults.runs().empty()) {
    return LeaveOpen(hypothesis,
                     "neither the first values of episodes nor the observed values near actions "
                     "tell channels apart");
  }
  return Decide(
      hypothesis, !faults.runs().empty(),
      faults.runs().empty()
          ? fmt::format("in {} episodes no number has the values of another", data.n_episodes())
          : ListSome(faults.runs(), "; "));
}

}  // namespace dp_bench::inspect
