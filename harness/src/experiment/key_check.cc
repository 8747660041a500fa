#include "experiment/key_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "config/document.h"
#include "data/collector.h"
#include "experiment/collection.h"
#include "plugin/isolated_env.h"
#include "rollout/env_runner.h"
#include "run/create_from_checkpoint.h"
#include "train/ema.h"
#include "train/optimizer.h"
#include "train/train_config.h"

namespace dp_bench::experiment {
namespace {

constexpr std::string_view kEnvParams = "/env/params";
constexpr std::string_view kPolicyParams = "/policy/params";
constexpr std::string_view kDatasetParams = "/dataset/params";

struct Section {
  const char* name;
  void (*read)(const Config& section);
};

void ReadPlugin(const Config& section) {
  if (section.Has("plugin")) section.Get<std::string>("plugin");
  section.Sub("params");
}

// Of the sections that every verb may find in a config, those that are read by the harness.
constexpr Section kSections[] = {
    {"env", ReadPlugin},
    {"policy", ReadPlugin},
    {"dataset",
     [](const Config& section) {
       ReadPlugin(section);
       train::SplitConfig::FromConfig(section);
     }},
    {"collect", [](const Config& section) { data::CollectConfig::FromConfig(section); }},
    {"training", [](const Config& section) { train::TrainingConfig::FromConfig(section); }},
    {"optimizer", [](const Config& section) { train::OptimizerConfig::FromConfig(section); }},
    {"ema", [](const Config& section) { train::EmaConfig::FromConfig(section); }},
    {"dataloader",
     [](const Config& section) { train::DataLoaderConfig::FromConfig(section, true); }},
    {"val_dataloader",
     [](const Config& section) { train::DataLoaderConfig::FromConfig(section, false); }},
    {"checkpoint", [](const Config& section) { train::CheckpointConfig::FromConfig(section); }},
    {"logging", [](const Config& section) { train::LoggingConfig::FromConfig(section); }},
    {"normalizer", [](const Config& section) { train::NormalizerConfig::FromConfig(section); }},
    {"env_runner",
     [](const Config& section) {
       run::EnvRunnerConfig::FromConfig(section);
       plugin::IsolationConfig::FromConfig(section);
     }},
};

bool IsBelow(std::string_view pointer, std::string_view place) {
  return pointer == place ||
         (pointer.starts_with(place) && pointer.substr(place.size()).starts_with('/'));
}

// The sections of a checkpoint's config that decide about its rollouts.
constexpr std::string_view kRolloutSections[] = {"/env", "/policy", "/env_runner"};

bool IsOfRollouts(std::string_view pointer) {
  return std::ranges::any_of(
      kRolloutSections, [pointer](std::string_view section) { return IsBelow(pointer, section); });
}

// Of a checkpoint's config other versions may have written what this one refuses: of its other
// sections those that the command line changes are read.
void ReadSections(const Task& task, const KeyCheck& check) {
  const Config& config = task.config();
  Horizons::FromConfig(config);
  for (const Section& section : kSections) {
    const std::string pointer = fmt::format("/{}", section.name);
    if (!config.Has(section.name)) continue;
    if (!check.is_of_checkpoint || IsOfRollouts(pointer) || task.document().HasOverride(pointer)) {
      section.read(config.Sub(section.name));
    }
  }
}

bool Counts(const KeyCheck& check, const std::string& pointer, bool is_override) {
  if (is_override) return true;
  if (check.is_of_checkpoint) return IsOfRollouts(pointer);
  if (IsBelow(pointer, kPolicyParams)) return check.makes_policy;
  if (IsBelow(pointer, kDatasetParams)) return check.makes_dataset;
  return true;
}

}  // namespace

void RejectUnknownKeys(const Task& task, const KeyCheck& check) {
  ReadSections(task, check);
  task.RequireShapesOfEnv();
  const config::ConfigDocument& document = task.document();
  if (!document.DescribeUnread(std::string(kEnvParams)).empty()) task.DescribeEnv();
  if (check.makes_policy && !document.DescribeUnread(std::string(kPolicyParams)).empty()) {
    run::CreatePolicy(task.config(), task.catalogue());
  }
  config::RejectUnread(
      document.DescribeUnread("", [&check](const std::string& pointer, bool is_override) {
        return Counts(check, pointer, is_override);
      }));
}

std::unique_ptr<Dataset> ProvideCheckedDataset(const Task& task, KeyCheck check) {
  std::unique_ptr<Dataset> dataset;
  if (!task.is_collected()) dataset = task.CreateDataset();
  check.makes_dataset = true;
  RejectUnknownKeys(task, check);
  if (!task.is_collected()) return dataset;
  return ProvideDatasetAlone(task) ? task.CreateDataset() : nullptr;
}

}  // namespace dp_bench::experiment
