// What a policy of several tasks is told about the task: the section "task_key" of a config.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/spec.h"

namespace dp_bench::data {

/// A vector for each task: its place in a list (one-hot), or any numbers, such as the embedding of
/// a text. It is an observation of the policy, which neither the env nor the data provide.
class TaskKey {
 public:
  /// Reads the section. The vectors of its `file` become part of the resolved config, so that a
  /// checkpoint does not need the file. Throws Error{kConfig} unless there are vectors of one size.
  static TaskKey FromConfig(const Config& section);

  /// The same for the section of a whole config; none if it has none.
  static std::optional<TaskKey> Find(const Config& config);

  /// The key in shape_meta: "task", of this type, [n].
  const KeySpec& spec() const { return spec_; }

  /// The vector of a task, [n]. Throws Error{kConfig} for an unknown one, with the nearest known
  /// name. `whose`: "the env's task", for the message.
  std::span<const float> Of(const std::string& task, std::string_view whose) const;

 private:
  TaskKey(std::map<std::string, std::vector<float>> vectors, std::string where);

  std::map<std::string, std::vector<float>> vectors_;
  std::string where_;  // in the config, for messages
  KeySpec spec_;
};

}  // namespace dp_bench::data
