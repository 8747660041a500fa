// Refuses unknown config keys before a verb collects, trains or opens a window.
#pragma once

#include <memory>

#include "task/task.h"

namespace dp_bench::task {

/// What a verb creates from a config. The params of other plugins cannot be checked: in config
/// files they are accepted, on the command line they are refused, because they would have no
/// effect.
struct KeyCheck {
  bool makes_policy = false;
  bool makes_dataset = false;
  bool is_before_dataset = false;  // a later check sees the dataset's params
  /// The config is from a checkpoint and was checked at training, maybe by another version. Only
  /// command-line values and the keys of env, policy and env_runner are checked.
  bool is_of_checkpoint = false;
  bool uses_env = true;  // false: its keys are not checked, which takes an env
};

/// Reads all sections of the config, including those that the verb does not use, and creates env
/// and policy: they check their params, and the policy checks that it can work on the task. With
/// `makes_dataset`, call it after creating the dataset. Throws Error{kConfig} for keys that nothing
/// reads, each with its place and the nearest valid key.
void RejectUnknownKeys(const Task& task, const KeyCheck& check);

/// Creates the task's dataset, collecting it if the config says so, and checks the keys as early as
/// possible. Null if a stop signal interrupted the collection; a later signal ends the program.
/// A policy that cannot work on the task is refused before anything is read or collected. Throws
/// what RejectUnknownKeys and Task::CreateDataset throw.
std::unique_ptr<Dataset> ProvideCheckedDataset(const Task& task, KeyCheck check);

}  // namespace dp_bench::task
