#include "task/key_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "config/document.h"
#include "core/stop_signal.h"
#include "planner/create_from_checkpoint.h"
#include "task/collection.h"
#include "task/config_reference.h"

namespace dp_bench::task {
namespace {

constexpr std::string_view kEnv = "/env";
constexpr std::string_view kEnvParams = "/env/params";
constexpr std::string_view kPolicyParams = "/policy/params";
constexpr std::string_view kDatasetParams[] = {"/dataset/params", "/dataset/mixture"};

bool IsBelow(std::string_view pointer, std::string_view place) {
  return pointer == place ||
         (pointer.starts_with(place) && pointer.substr(place.size()).starts_with('/'));
}

// The sections of a checkpoint's config that affect rollouts.
constexpr std::string_view kRolloutSections[] = {"/env", "/policy", "/env_runner", "/task_key"};

bool IsOfRollouts(std::string_view pointer) {
  return std::ranges::any_of(
      kRolloutSections, [pointer](std::string_view section) { return IsBelow(pointer, section); });
}

// Other versions may have written keys in a checkpoint's config that this version refuses, so its
// other sections are read only if the command line changes them.
void ReadSections(const Task& task, const KeyCheck& check) {
  const Config& config = task.config();
  Horizons::FromConfig(config);
  for (const ConfigSection& section : ConfigSections()) {
    const std::string pointer = fmt::format("/{}", section.name);
    if (!config.Has(section.name)) continue;
    if (!check.is_of_checkpoint || IsOfRollouts(pointer) || task.document().HasOverride(pointer)) {
      section.read(config.Sub(section.name));
    }
  }
}

bool Counts(const KeyCheck& check, const std::string& pointer, bool is_override) {
  if (!check.uses_env && IsBelow(pointer, kEnv)) return false;
  if (is_override) return true;
  if (check.is_of_checkpoint) return IsOfRollouts(pointer);
  if (IsBelow(pointer, kPolicyParams)) return check.makes_policy;
  const auto is_below = [&pointer](std::string_view place) { return IsBelow(pointer, place); };
  return check.makes_dataset || std::ranges::none_of(kDatasetParams, is_below);
}

// Creates the policy, unless its params show that this has happened.
void TryPolicy(const Task& task) {
  const std::string pointer(kPolicyParams);
  const bool has_params = !task.config().Sub("policy").Sub("params").Keys().empty();
  if (has_params && task.document().DescribeUnread(pointer).empty()) return;
  planner::CreatePolicy(task.config(), task.catalogue());
}

}  // namespace

void RejectUnknownKeys(const Task& task, const KeyCheck& check) {
  ReadSections(task, check);
  const config::ConfigDocument& document = task.document();
  if (check.uses_env) task.RequireShapesOfEnv();
  if (check.uses_env && !document.DescribeUnread(std::string(kEnvParams)).empty())
    task.DescribeEnv();
  if (check.makes_policy) TryPolicy(task);
  // those that only the dataset reads; a collected one has params of its own
  const std::string_view later = !check.is_before_dataset ? ""
                                 : task.is_collected()    ? kDatasetParams[1]
                                                          : "/dataset";
  config::RejectUnread(
      document.DescribeUnread("", [&](const std::string& pointer, bool is_override) {
        const bool is_later = !later.empty() && IsBelow(pointer, later);
        return !is_later && Counts(check, pointer, is_override);
      }));
}

std::unique_ptr<Dataset> ProvideCheckedDataset(const Task& task, KeyCheck check) {
  std::unique_ptr<Dataset> dataset;
  if (check.makes_policy && !check.is_of_checkpoint) TryPolicy(task);
  if (!task.is_collected()) dataset = task.CreateDataset();
  check.makes_dataset = true;
  RejectUnknownKeys(task, check);
  if (!task.is_collected()) return dataset;
  const bool is_there = ProvideDataset(task, core::CatchStopSignals());
  return !core::ReleaseStopSignals() && is_there ? task.CreateDataset() : nullptr;
}

}  // namespace dp_bench::task
