// Every verb refuses a key that nothing reads, before it collects, trains or opens a window.
#pragma once

#include <memory>

#include "experiment/task.h"

namespace dp_bench::experiment {

/// What a verb makes of a config. Params of plugins that it does not make cannot be checked: those
/// of config files pass, those of the command line are refused, because nothing would come of them.
struct KeyCheck {
  bool makes_policy = false;
  bool makes_dataset = false;
  /// The config is that of a checkpoint, which was checked when it was trained, perhaps by another
  /// version: what is refused are values of the command line, and keys of env, policy and
  /// env_runner.
  bool is_of_checkpoint = false;
};

/// Reads the sections of the config, those that the verb does not use too, and makes env and policy
/// where only they know what their params may hold. With `makes_dataset`, call it after the dataset
/// was made. Throws Error{kConfig} for keys that nothing reads, each
/// with its place and the nearest key that exists.
void RejectUnknownKeys(const Task& task, const KeyCheck& check);

/// The task's dataset, collected where the config says so, with the keys checked as soon as can be.
/// Null when a stop signal ended the collection; a later one ends the program. Throws as
/// RejectUnknownKeys and Task::CreateDataset do.
std::unique_ptr<Dataset> ProvideCheckedDataset(const Task& task, KeyCheck check);

}  // namespace dp_bench::experiment
