// Several datasets read as one, such as one per task, and the key that tells their tasks apart.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/sequence_sampler.h"
#include "data/task_key.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"

namespace dp_bench::data {

/// How often the sequences of each dataset are trained on.
enum class MixtureSampling {
  kProportional,  // all sequences equally often
  kBalanced,      // all tasks equally often
};

/// The section `mixture` of the section `dataset` of a config.
struct MixtureConfig {
  struct Source {
    std::string name;
    std::optional<std::string> path;
    std::string plugin;  // empty: the one that reads `path`
    Config params;       // of the plugin, without a path
    std::string task;    // empty: what the data record
    double weight = 1.0;
  };

  std::vector<std::string> tasks;  // values of env.params.task, whose experts collect datasets
  std::vector<Source> sources;
  MixtureSampling sampling = MixtureSampling::kProportional;

  /// None if there is no such section. Throws Error{kConfig} for one that names no data, and beside
  /// dataset.plugin.
  static std::optional<MixtureConfig> Find(const Config& dataset);
};

/// A dataset of a mixture.
struct MixturePart {
  std::string name;  // for messages
  std::unique_ptr<Dataset> dataset;
  std::string task;       // of all its episodes; empty: what the data record for each of them
  std::string or_else{};  // the task of episodes for which nothing is recorded
  double weight = 1.0;    // of its share of the training sequences
};

/// The episodes of all parts, in their order. Its keys are those that all parts have alike and, if
/// there is a TaskKey, its own, in place of a recorded one. Names of features and channels are the
/// first part's.
class Mixture final : public Dataset {
 public:
  /// Throws Error{kConfig} for an unknown task.
  Mixture(std::vector<MixturePart> parts, std::optional<TaskKey> task_key,
          MixtureSampling sampling);

  /// `dataset` as a mixture; null if it is none.
  static const Mixture* Find(const Dataset& dataset);

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return episode_ends_; }
  std::string Task(std::int64_t episode) const override;
  std::string FeatureName(int key) const override;
  std::vector<std::string> ChannelNames(int key) const override;

  /// The sequences of each task of each part, with their shares. Empty if all sequences count the
  /// same. `sampler`: of this dataset.
  std::vector<SamplePool> PoolsOf(const SequenceSampler& sampler) const;

 private:
  void AddKeys();
  void AddEpisodes();
  const Dataset& FirstPart() const { return *parts_.front().dataset; }
  void DoRead(int key, std::int64_t begin, std::int64_t end,
              std::span<std::byte> out) const override;
  void FillTask(std::int64_t begin, std::int64_t end, std::span<std::byte> out) const;

  std::vector<MixturePart> parts_;
  std::optional<TaskKey> task_key_;
  MixtureSampling sampling_;
  DatasetSpec spec_;
  std::vector<std::vector<int>> key_of_part_;  // [part][key of spec_]; -1 for the task key
  std::vector<std::int64_t> part_ends_;        // the step after the last one of each part
  std::vector<std::int64_t> episode_ends_;
  // of each episode
  std::vector<std::size_t> part_of_episode_;
  std::vector<std::string> tasks_;  // "" if it is not known
};

}  // namespace dp_bench::data
