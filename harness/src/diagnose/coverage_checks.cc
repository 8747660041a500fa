// See coverage_checks.h.
#include "diagnose/coverage_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace dp_bench::diagnose {
namespace {

constexpr std::int64_t kMaxReferences = 4000;
constexpr std::int64_t kMaxOwn = 1000;  // observations of the data compared with the others
constexpr double kTypical = 0.99;       // share of the data's own distances that counts as near
// Distances below this are never called unseen, in normalized units: data may repeat a state
// exactly.
constexpr float kMinDistance = 0.01F;

// One dimension of one key.
struct Dimension {
  const Signal* signal;
  std::int64_t d;
  float scale;
};

struct Row {
  std::vector<float> x;  // [D], normalized but for the offset
  std::int64_t episode = -1;
};

struct Neighbour {
  float distance = std::numeric_limits<float>::infinity();
  const Row* row = nullptr;
};

std::vector<Dimension> DimensionsOf(const Demonstrations& data, const ObsScales& scales) {
  std::vector<Dimension> dimensions;
  for (const auto& [name, scale] : scales) {
    const Signal* signal = data.Find(name);
    for (std::int64_t d = 0; d < signal->dim; ++d) {
      dimensions.push_back({signal, d, scale[static_cast<std::size_t>(d)]});
    }
  }
  return dimensions;
}

std::vector<Row> RowsOfData(const std::vector<Dimension>& dimensions, const Demonstrations& data,
                            const std::vector<std::int64_t>& steps) {
  std::vector<Row> rows;
  for (const std::int64_t step : steps) {
    Row row = {.x = {}, .episode = data.EpisodeOf(step)};
    for (const Dimension& dim : dimensions) {
      row.x.push_back(dim.scale * dim.signal->at(step, dim.d));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> RowsOfRollout(const std::vector<Dimension>& dimensions,
                               const ObservedEpisode& episode) {
  std::vector<Row> rows(episode.env_steps.size());
  for (const Dimension& dim : dimensions) {
    const std::vector<float>& values = episode.obs.at(dim.signal->name);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto place = static_cast<std::ptrdiff_t>(i) * dim.signal->dim + dim.d;
      rows[i].x.push_back(dim.scale * values[static_cast<std::size_t>(place)]);
    }
  }
  return rows;
}

// The nearest observation of another episode than that of `row`.
Neighbour Nearest(const Row& row, const std::vector<Row>& references) {
  Neighbour nearest;
  for (const Row& other : references) {
    if (other.episode == row.episode) continue;
    float square = 0.0F;
    for (std::size_t d = 0; d < row.x.size(); ++d) {
      square += (row.x[d] - other.x[d]) * (row.x[d] - other.x[d]);
    }
    if (square < nearest.distance) nearest = {square, &other};
  }
  nearest.distance = std::sqrt(nearest.distance);
  return nearest;
}

// A sample of the steps of these episodes; only their first steps if `only_starts`.
std::vector<std::int64_t> StepsOf(const Demonstrations& data, const std::vector<bool>& episodes,
                                  bool only_starts, std::int64_t count) {
  std::vector<std::int64_t> steps;
  for (std::int64_t e = 0; e < data.n_episodes(); ++e) {
    if (!episodes[static_cast<std::size_t>(e)]) continue;
    const std::int64_t end = only_starts ? data.EpisodeBegin(e) + 1 : data.EpisodeEnd(e);
    for (std::int64_t step = data.EpisodeBegin(e); step < end; ++step) steps.push_back(step);
  }
  std::vector<std::int64_t> sample;
  for (const std::int64_t place : Spread(std::ssize(steps), count)) {
    sample.push_back(steps[static_cast<std::size_t>(place)]);
  }
  return sample;
}

// Distances from observations of the data to those of other episodes.
struct OwnDistances {
  float median;
  float far;  // few distances exceed it
};

OwnDistances DistancesOf(const std::vector<Row>& own, const std::vector<Row>& references) {
  std::vector<float> distances;
  for (const Row& row : own) distances.push_back(Nearest(row, references).distance);
  return {Quantile(distances, 0.5), std::max(kMinDistance, Quantile(distances, kTypical))};
}

// How far rollouts are from the data.
class RolloutDistances {
 public:
  RolloutDistances(std::vector<Dimension> dimensions, const std::vector<Row>& references, float far)
      : dimensions_(std::move(dimensions)),
        references_(references),
        far_(far),
        squares_(dimensions_.size()),
        offsets_(dimensions_.size()) {}

  void Add(const ObservedEpisode& episode) {
    const std::vector<Row> rows = RowsOfRollout(dimensions_, episode);
    bool was_far = false;
    bool has_left = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Neighbour nearest = Nearest(rows[i], references_);
      all_.push_back(nearest.distance);
      if (i == 0) starts_.push_back(nearest.distance);
      const bool is_far = nearest.distance > far_;
      if (is_far) NoteFar(rows[i], *nearest.row);
      if (is_far && was_far && !has_left) {  // a single one may be chance
        has_left = true;
        leaving_.push_back(static_cast<float>(episode.env_steps[i - 1]));
      }
      was_far = is_far;
    }
  }

  float median() const { return Quantile(all_, 0.5); }
  float median_start() const { return Quantile(starts_, 0.5); }
  std::size_t size() const { return all_.size(); }
  double share_far() const { return static_cast<double>(n_far_) / static_cast<double>(size()); }

  // ", in 7 of 8 episodes from env step 48 on (median)"; empty if no episode leaves the data.
  std::string WhereItBegins() const {
    if (leaving_.empty()) return "";
    return fmt::format(", in {} of {} episodes from env step {:g} on (median)", leaving_.size(),
                       starts_.size(), Quantile(leaving_, 0.5));
  }

  // "'agent_pos'[0] makes 81 % of it: 0.43 from the nearest"
  std::string WhatDiffers() const {
    double sum = 0.0;
    for (const double square : squares_) sum += square;
    const auto worst =
        static_cast<std::size_t>(std::ranges::max_element(squares_) - squares_.begin());
    return fmt::format("'{}'[{}] makes {:.0f} % of the square, off by {:.3g} of its units",
                       dimensions_[worst].signal->name, dimensions_[worst].d,
                       100.0 * squares_[worst] / sum, Quantile(offsets_[worst], 0.5));
  }

 private:
  void NoteFar(const Row& row, const Row& nearest) {
    ++n_far_;
    for (std::size_t d = 0; d < row.x.size(); ++d) {
      const float difference = row.x[d] - nearest.x[d];
      squares_[d] += static_cast<double>(difference) * difference;
      offsets_[d].push_back(std::abs(difference / dimensions_[d].scale));
    }
  }

  std::vector<Dimension> dimensions_;
  const std::vector<Row>& references_;
  float far_;
  std::vector<float> all_;
  std::vector<float> starts_;
  std::vector<float>
      leaving_;  // env step at which an episode leaves the data, one per such episode
  std::size_t n_far_ = 0;
  std::vector<double> squares_;              // [D], summed over the far observations
  std::vector<std::vector<float>> offsets_;  // [D][far observations], in the units of the data
};

// The problem of the network or its sampling that explains why the policy drifts away.
std::string ExplanationAmong(const Findings& findings) {
  for (const Finding& finding : findings) {
    const bool is_of_policy =
        finding.id.starts_with("weights.") || finding.id.starts_with("sampling.");
    if (finding.is_problem() && is_of_policy) return finding.id;
  }
  return "";
}

Finding AdviseOn(Finding finding, bool is_from_start) {
  if (is_from_start) {
    finding.advice =
        "episodes start where there are no demonstrations: check the env's params, the meaning of "
        "the key in env and data, and whether normalizer and data belong to the policy; or collect "
        "demonstrations there";
    finding.config_key = "env.params";
  } else {
    finding.advice =
        "the policy drifts away: demonstrate recoveries (more episodes, collect with noise on the "
        "actions, corrections of what the policy does), or plan more often (n_action_steps)";
    finding.config_key = "collect.action_noise";
  }
  return finding;
}

// Forwards everything to another planner and records the observations.
class ObservingPlanner final : public control::ChunkPlanner {
 public:
  ObservingPlanner(control::ChunkPlanner& planner, const std::vector<std::string>& keys)
      : planner_(planner), keys_(keys) {}

  int batch_size() const override { return planner_.batch_size(); }

  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override {
    for (std::size_t i = 0; i < rows.size(); ++i) Note(obs, i, rows[i]);
    planner_.Plan(obs, rows, actions);
  }

  std::string FaultOf(std::size_t row) const override { return planner_.FaultOf(row); }

  ObservedEpisode Take(std::uint64_t seed) { return std::move(episodes_[seed]); }

 private:
  void Note(const control::ObsBatch& obs, std::size_t row, const control::PlanRow& plan) {
    ObservedEpisode& episode = episodes_[plan.seed];
    episode.env_steps.push_back(plan.env_step);
    for (const std::string& key : keys_) {
      const Array& windows = obs.at(key);  // [M, To, ...]
      const std::span<const float> all = windows.as<float>();
      const auto n_rows = static_cast<std::size_t>(windows.shape()[0]);
      const auto n_obs_steps = static_cast<std::size_t>(windows.shape()[1]);
      const std::size_t window = all.size() / n_rows;
      const auto latest = all.subspan(row * window, window).last(window / n_obs_steps);
      std::vector<float>& values = episode.obs[key];
      values.insert(values.end(), latest.begin(), latest.end());
    }
  }

  control::ChunkPlanner& planner_;
  const std::vector<std::string>& keys_;
  std::map<std::uint64_t, ObservedEpisode> episodes_;  // by seed
};

}  // namespace

std::vector<ObservedEpisode> ObserveRollouts(rollout::EnvRunner& runner,
                                             control::ChunkPlanner& planner,
                                             const std::vector<std::string>& keys) {
  ObservingPlanner observing(planner, keys);
  const run::RunResult result = runner.Run(observing);
  std::vector<ObservedEpisode> episodes;
  for (const run::EpisodeRecord& record : result.records) {
    if (record.failure_reason) continue;
    episodes.push_back(observing.Take(record.seed));
    episodes.back().success = record.success;
  }
  return episodes;
}

Finding CheckCoverage(const Demonstrations& data, const std::vector<bool>& train_episodes,
                      const ObsScales& scales, const std::vector<ObservedEpisode>& episodes,
                      const Findings& so_far) {
  if (scales.empty()) return LeaveOpen(kUnseenStates, "there are no low-dimensional observations");
  if (episodes.empty()) return LeaveOpen(kUnseenStates, "no episode could be rolled out");
  if (std::ranges::count(train_episodes, true) < 2) {
    return LeaveOpen(kUnseenStates,
                     "a single training episode gives no distances to other episodes");
  }
  const std::vector<Dimension> dimensions = DimensionsOf(data, scales);
  const std::vector<bool> all(train_episodes.size(), true);
  const auto sample = [&](const std::vector<bool>& of, bool only_starts, std::int64_t count) {
    return RowsOfData(dimensions, data, StepsOf(data, of, only_starts, count));
  };
  const std::vector<Row> references = sample(train_episodes, false, kMaxReferences);
  const OwnDistances own = DistancesOf(sample(all, false, kMaxOwn), references);
  const OwnDistances own_starts = DistancesOf(sample(all, true, kMaxOwn), references);

  RolloutDistances rollouts(dimensions, references, own.far);
  for (const ObservedEpisode& episode : episodes) rollouts.Add(episode);
  const bool is_from_start = rollouts.median_start() > std::max(own.far, own_starts.far);
  const auto n_success = std::ranges::count_if(episodes, &ObservedEpisode::success);
  const std::string evidence = fmt::format(
      "normalized distance to the nearest training observation: median {:.3g}, {:.3g} at starts; "
      "between the data's own episodes {:.3g} and {:.3g}, 99 % within {:.3g} and {:.3g}; {:.0f} % "
      "of {} rollout observations lie beyond{}; {} of {} episodes succeeded",
      rollouts.median(), rollouts.median_start(), own.median, own_starts.median, own.far,
      own_starts.far, 100.0 * rollouts.share_far(), rollouts.size(), rollouts.WhereItBegins(),
      n_success, episodes.size());
  if (!is_from_start && rollouts.median() <= own.far) {
    return Decide(kUnseenStates, false, evidence);
  }
  const std::string explanation = is_from_start ? "" : ExplanationAmong(so_far);
  Finding finding = AdviseOn(Hypothesis(kUnseenStates), is_from_start);
  if (!explanation.empty() || 2 * n_success >= std::ssize(episodes)) {
    finding.severity = Severity::kNote;
  }
  return Decide(finding, true,
                evidence + "; " + rollouts.WhatDiffers() +
                    (explanation.empty() ? "" : "; follows from " + explanation));
}

}  // namespace dp_bench::diagnose
