#include "data/mixture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/console.h"
#include "core/errors.h"
#include "data/key_check.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::data {
namespace {

MixtureConfig::Source ReadSource(const std::string& name, const Config& config) {
  MixtureConfig::Source source = {.name = name, .path = {}, .plugin = {}, .params = config};
  const ConfigKeys keys(config);
  keys("path", &source.path, "file or folder, short for params.path");
  keys("plugin", &source.plugin, "dataset plugin; empty: the one that reads `path`");
  source.params = config.Sub("params", "what the plugin reads");
  keys("task", &source.task,
       "what all episodes show; empty: the task that the data record for each episode, or else the "
       "name of this entry");
  keys("weight", &source.weight, 0.001, 1000.0,
       "factor of how often the sequences of this dataset are trained on");
  if (source.path || !source.plugin.empty()) return source;
  throw ConfigError("{}: expected path or plugin", config.Where());
}

const KeySpec* FindKey(const Dataset& dataset, std::string_view name) {
  const std::vector<KeySpec>& keys = dataset.spec().keys;
  const auto found = std::ranges::find(keys, name, &KeySpec::name);
  return found == keys.end() ? nullptr : &*found;
}

// Whether all parts have the key. A policy that needs one that differs is refused later.
bool IsShared(const KeySpec& key, const std::vector<MixturePart>& parts) {
  for (const MixturePart& part : parts) {
    const KeySpec* found = FindKey(*part.dataset, key.name);
    if (found == nullptr) return false;
    if (*found == key) continue;
    core::LogWarning("the mixture leaves out '{}', which is {} in '{}' and {} in '{}'", key.name,
                     Describe(key), parts.front().name, Describe(*found), part.name);
    return false;
  }
  return true;
}

// Whether no part has the channels of the key in another order. Other names may be the same
// channels, spelled in another way.
bool IsInOneOrder(const std::string& key, const std::vector<MixturePart>& parts) {
  const auto names_of = [&key](const MixturePart& part) {
    return part.dataset->ChannelNames(part.dataset->KeyIndex(key));
  };
  const std::vector<std::string> first = names_of(parts.front());
  for (const MixturePart& part : parts) {
    const std::vector<std::string> own = names_of(part);
    if (own == first || own.empty() || first.empty()) continue;
    const bool is_other_order = std::ranges::is_permutation(own, first);
    core::LogWarning("the mixture {} '{}', whose channels are {} in '{}' and {} in '{}'",
                     is_other_order ? "leaves out" : "joins", key, fmt::join(first, ", "),
                     parts.front().name, fmt::join(own, ", "), part.name);
    if (is_other_order) return false;
  }
  return true;
}

// 0 if they differ, or one is unknown.
double CommonFps(const std::vector<MixturePart>& parts) {
  const double fps = parts.front().dataset->spec().fps;
  for (const MixturePart& part : parts) {
    const double other = part.dataset->spec().fps;
    if (other == fps) continue;
    if (fps > 0.0 && other > 0.0) {
      core::LogWarning("the mixture has {} in '{}' and {} in '{}': a step is not the same time",
                       RateText(fps), parts.front().name, RateText(other), part.name);
    }
    return 0.0;
  }
  return fps;
}

}  // namespace

std::optional<MixtureConfig> MixtureConfig::Find(const Config& dataset) {
  if (!dataset.Has("mixture")) return std::nullopt;
  const Config section = dataset.Sub("mixture", "several datasets as one, such as one per task");
  MixtureConfig mixture;
  const ConfigKeys keys(section);
  keys("tasks", &mixture.tasks,
       "values of env.params.task; the expert of each collects a dataset as the section collect "
       "says");
  keys.Choice(
      "sampling", &mixture.sampling,
      {{"proportional", MixtureSampling::kProportional}, {"balanced", MixtureSampling::kBalanced}},
      "all sequences are trained on equally often, or all tasks");
  const Config sources = section.Sub("datasets", "further datasets, under names of your choice");
  for (const std::string& name : sources.Keys()) {
    mixture.sources.push_back(ReadSource(name, sources.Sub(name, "one of the datasets")));
  }
  if (mixture.tasks.empty() && mixture.sources.empty()) {
    throw ConfigError("{}: expected tasks or datasets, found none", section.Where());
  }
  if (dataset.Has("plugin")) {
    throw ConfigError("{}: expected none beside dataset.mixture, which names plugins itself",
                      dataset.Where("plugin"));
  }
  return mixture;
}

Mixture::Mixture(std::vector<MixturePart> parts, std::optional<TaskKey> task_key,
                 MixtureSampling sampling)
    : parts_(std::move(parts)), task_key_(std::move(task_key)), sampling_(sampling) {
  DPB_ASSERT(!parts_.empty());
  AddKeys();
  AddEpisodes();
}

void Mixture::AddKeys() {
  spec_.fps = CommonFps(parts_);
  for (const KeySpec& key : FirstPart().spec().keys) {
    const bool is_replaced = task_key_ && key.name == task_key_->spec().name;
    if (!is_replaced && IsShared(key, parts_) && IsInOneOrder(key.name, parts_)) {
      spec_.keys.push_back(key);
    }
  }
  if (task_key_) spec_.keys.push_back(task_key_->spec());
  std::ranges::sort(spec_.keys, {}, &KeySpec::name);
  for (const MixturePart& part : parts_) {
    std::vector<int>& indices = key_of_part_.emplace_back();
    for (const KeySpec& key : spec_.keys) {
      indices.push_back(key.type == KeyType::kTask ? -1 : part.dataset->KeyIndex(key.name));
    }
  }
}

void Mixture::AddEpisodes() {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const MixturePart& part = parts_[i];
    const std::span<const std::int64_t> ends = part.dataset->episode_ends();
    for (std::size_t episode = 0; episode < ends.size(); ++episode) {
      std::string task = part.task;
      if (task.empty()) task = part.dataset->Task(static_cast<std::int64_t>(episode));
      if (task.empty()) task = part.or_else;
      if (task_key_) {
        task_key_->Of(task, fmt::format("the task of episode {} of '{}'", episode, part.name));
      }
      tasks_.push_back(std::move(task));
      part_of_episode_.push_back(i);
      episode_ends_.push_back(begin + ends[episode]);
    }
    begin = episode_ends_.empty() ? 0 : episode_ends_.back();
    part_ends_.push_back(begin);
  }
}

const Mixture* Mixture::Find(const Dataset& dataset) {
  return dynamic_cast<const Mixture*>(&dataset);
}

std::string Mixture::Task(std::int64_t episode) const {
  return tasks_.at(static_cast<std::size_t>(episode));
}

std::string Mixture::FeatureName(int key) const {
  const int index = key_of_part_.front().at(static_cast<std::size_t>(key));
  return index < 0 ? "" : FirstPart().FeatureName(index);
}

std::vector<std::string> Mixture::ChannelNames(int key) const {
  const int index = key_of_part_.front().at(static_cast<std::size_t>(key));
  return index < 0 ? std::vector<std::string>() : FirstPart().ChannelNames(index);
}

std::vector<SamplePool> Mixture::PoolsOf(const SequenceSampler& sampler) const {
  const bool is_weighted =
      std::ranges::any_of(parts_, [](const MixturePart& part) { return part.weight != 1.0; });
  if (!is_weighted && sampling_ == MixtureSampling::kProportional) return {};

  std::map<std::pair<std::size_t, std::string>, SamplePool> pools;
  std::map<std::string, double> n_of_task;
  for (std::int64_t i = 0; i < sampler.size(); ++i) {
    const auto end = std::ranges::upper_bound(episode_ends_, sampler.at(i).begin);
    const auto episode = static_cast<std::size_t>(end - episode_ends_.begin());
    pools[{part_of_episode_[episode], tasks_[episode]}].sequences.push_back(i);
    n_of_task[tasks_[episode]] += 1.0;
  }
  double sum = 0.0;
  for (auto& [place, pool] : pools) {
    const auto& [part, task] = place;
    pool.share = parts_[part].weight * static_cast<double>(pool.sequences.size());
    if (sampling_ == MixtureSampling::kBalanced) pool.share /= n_of_task[task];
    sum += pool.share;
  }
  std::vector<SamplePool> result;
  for (auto& [place, pool] : pools) {
    pool.share /= sum;
    result.push_back(std::move(pool));
  }
  return result;
}

void Mixture::DoRead(int key, std::int64_t begin, std::int64_t end,
                     std::span<std::byte> out) const {
  const KeySpec& spec = spec_.keys[static_cast<std::size_t>(key)];
  if (spec.type == KeyType::kTask) return FillTask(begin, end, out);
  std::int64_t part_begin = 0;
  for (std::size_t i = 0; i < parts_.size(); part_begin = part_ends_[i], ++i) {
    const std::int64_t first = std::max(begin, part_begin);
    const std::int64_t last = std::min(end, part_ends_[i]);
    if (first >= last) continue;
    parts_[i].dataset->Read(key_of_part_[i][static_cast<std::size_t>(key)], first - part_begin,
                            last - part_begin,
                            out.subspan(static_cast<std::size_t>(first - begin) * spec.ByteSize(),
                                        static_cast<std::size_t>(last - first) * spec.ByteSize()));
  }
}

void Mixture::FillTask(std::int64_t begin, std::int64_t end, std::span<std::byte> out) const {
  auto episode = static_cast<std::size_t>(std::ranges::upper_bound(episode_ends_, begin) -
                                          episode_ends_.begin());
  std::byte* to = out.data();
  for (std::int64_t step = begin; step < end; ++step) {
    if (step == episode_ends_[episode]) ++episode;
    const std::span<const std::byte> vector =
        std::as_bytes(task_key_->Of(tasks_[episode], "the task of an episode"));
    to = std::ranges::copy(vector, to).out;
  }
}

}  // namespace dp_bench::data
