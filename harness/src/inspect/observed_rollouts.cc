// See observed_rollouts.h.
#include "inspect/observed_rollouts.h"

#include <algorithm>
#include <utility>

namespace dp_bench::inspect {
namespace {

// Forwards everything to another planner and records the observations.
class ObservingPlanner final : public rollout::ChunkPlanner {
 public:
  ObservingPlanner(rollout::ChunkPlanner& planner, const std::vector<std::string>& keys)
      : planner_(planner), keys_(keys) {}

  int batch_size() const override { return planner_.batch_size(); }

  void Plan(const rollout::ObsBatch& obs, std::span<const rollout::PlanRow> rows,
            std::span<float> actions) override {
    for (std::size_t i = 0; i < rows.size(); ++i) Note(obs, i, rows[i]);
    planner_.Plan(obs, rows, actions);
  }

  ObservedEpisode Take(std::uint64_t seed) { return std::move(episodes_[seed]); }

 private:
  void Note(const rollout::ObsBatch& obs, std::size_t row, const rollout::PlanRow& plan) {
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

  rollout::ChunkPlanner& planner_;
  const std::vector<std::string>& keys_;
  std::map<std::uint64_t, ObservedEpisode> episodes_;  // by seed
};

}  // namespace

std::vector<ObservedEpisode> ObserveRollouts(rollout::EnvRunner& runner,
                                             rollout::ChunkPlanner& planner,
                                             const std::vector<std::string>& keys) {
  ObservingPlanner observing(planner, keys);
  const run::RunResult result = runner.Run(observing);
  std::vector<ObservedEpisode> episodes;
  for (const run::EpisodeRecord& record : result.records) {
    if (record.failure_reason) continue;
    ObservedEpisode episode = observing.Take(record.seed);
    episode.seed = record.seed;
    episode.success = record.success;
    episodes.push_back(std::move(episode));
  }
  return episodes;
}

}  // namespace dp_bench::inspect
