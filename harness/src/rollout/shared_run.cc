#include "rollout/shared_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "run/episode_log.h"

namespace dp_bench::rollout {
namespace {

using Json = nlohmann::json;

void Add(run::RunResult of_rank, run::RunResult* sum) {
  std::ranges::move(of_rank.records, std::back_inserter(sum->records));
  sum->metric_names = std::move(of_rank.metric_names);
  sum->n_env_steps += of_rank.n_env_steps;
  sum->n_plans += of_rank.n_plans;
  sum->plan_s = std::max(sum->plan_s, of_rank.plan_s);
  sum->wall_s = std::max(sum->wall_s, of_rank.wall_s);
  sum->is_interrupted = sum->is_interrupted || of_rank.is_interrupted;
}

}  // namespace

run::RunResult RunShared(EnvRunner& runner, control::ChunkPlanner& planner,
                         core::Communicator& ranks, std::span<const int> episodes,
                         const run::RunHooks& hooks) {
  if (ranks.size() == 1) return runner.Run(planner, episodes, hooks);
  std::vector<int> share;
  for (auto i = static_cast<std::size_t>(ranks.rank()); i < episodes.size();
       i += static_cast<std::size_t>(ranks.size())) {
    share.push_back(episodes[i]);
  }
  const run::RunResult own = runner.Run(planner, share, hooks);
  run::RunResult all;
  for (const std::string& bytes : ranks.AllGather(EncodeResult(own))) {
    Add(DecodeResult(bytes), &all);
  }
  std::ranges::sort(all.records, {}, &run::EpisodeRecord::episode);
  return all;
}

std::string EncodeResult(const run::RunResult& result) {
  const Json json = {{"rows", run::EpisodesJsonl(result)},
                     {"metric_names", result.metric_names},
                     {"n_env_steps", result.n_env_steps},
                     {"n_plans", result.n_plans},
                     {"plan_s", result.plan_s},
                     {"wall_s", result.wall_s},
                     {"is_interrupted", result.is_interrupted}};
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

run::RunResult DecodeResult(const std::string& bytes) {
  const Json json = Json::from_cbor(bytes);
  run::RunResult result;
  json.at("metric_names").get_to(result.metric_names);
  result.records = run::ParseEpisodes(json.at("rows").get<std::string>(), "the episodes of a rank",
                                      result.metric_names);
  json.at("n_env_steps").get_to(result.n_env_steps);
  json.at("n_plans").get_to(result.n_plans);
  json.at("plan_s").get_to(result.plan_s);
  json.at("wall_s").get_to(result.wall_s);
  json.at("is_interrupted").get_to(result.is_interrupted);
  return result;
}

}  // namespace dp_bench::rollout
