#include "data/task_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/name.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/list_some.h"

namespace dp_bench::data {
namespace {

using TaskVectors = std::map<std::string, std::vector<float>>;

constexpr const char* kSection = "task_key";
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr std::size_t kShownTasks = 60;

TaskVectors OneHot(const std::vector<std::string>& tasks, const std::string& where) {
  TaskVectors vectors;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::vector<float> vector(tasks.size());
    vector[i] = 1.0F;
    if (vectors.emplace(tasks[i], std::move(vector)).second) continue;
    throw ConfigError("{}: '{}' is listed twice", where, tasks[i]);
  }
  return vectors;
}

// Enters the vectors of a file into the config. In the config of a run they are there already, and
// the file may be on another machine.
void TakeFile(const Config& section) {
  const auto file = section.GetOptional<std::string>(
      "file",
      "JSON file with an object like `vectors`, which it replaces; its vectors become part "
      "of the run's config.json");
  const bool has_vectors = section.Has("vectors");
  if (!file || (has_vectors && !std::filesystem::exists(*file))) return;
  try {
    const nlohmann::json vectors = core::ReadJsonFile(*file, kMaxFileBytes, ErrorCode::kConfig);
    if (!has_vectors) return section.ReadAll(nlohmann::json({{"vectors", vectors}}).dump());
    if (nlohmann::json::parse(section.Sub("vectors").ToJson()) == vectors) return;
    throw ConfigError("'{}' has other vectors than the config; leave out file or vectors", *file);
  } catch (Error& error) {
    error.AddContext(section.Where("file"));
    throw;
  }
}

TaskVectors ReadVectors(const Config& vectors) {
  TaskVectors result;
  for (const std::string& task : vectors.Keys()) {
    const auto numbers = vectors.Require<std::vector<double>>(task, "the vector of this task");
    std::vector<float>& vector = result[task];
    for (const double number : numbers) {
      vector.push_back(static_cast<float>(number));
      if (std::isfinite(vector.back())) continue;
      throw ConfigError("{}: expected numbers that fit float32, found {}", vectors.Where(task),
                        number);
    }
    const std::size_t wanted = result.begin()->second.size();
    if (!vector.empty() && vector.size() == wanted) continue;
    throw ConfigError("{}: expected as many numbers as '{}' has, {}, at least 1; found {}",
                      vectors.Where(task), result.begin()->first, wanted, vector.size());
  }
  return result;
}

std::vector<std::string> NamesOf(const TaskVectors& vectors) {
  std::vector<std::string> names;
  for (const auto& [name, vector] : vectors) names.push_back(name);
  return names;
}

}  // namespace

TaskKey::TaskKey(TaskVectors vectors, std::string where)
    : vectors_(std::move(vectors)),
      where_(std::move(where)),
      spec_{.name = "task",
            .type = KeyType::kTask,
            .shape = {static_cast<std::int64_t>(vectors_.begin()->second.size())}} {}

TaskKey TaskKey::FromConfig(const Config& section) {
  const auto tasks = section.Get<std::vector<std::string>>(
      "tasks", {}, "names of tasks; each gets a vector with a 1 at its place in this list");
  TakeFile(section);
  TaskVectors vectors = ReadVectors(
      section.Sub("vectors", "vectors of tasks by name, all of one size: {\"reach\": [0.3, ...]}"));
  if (tasks.empty() == vectors.empty()) {
    throw ConfigError("{}: expected tasks, vectors or file, one of them", section.Where());
  }
  if (vectors.empty()) vectors = OneHot(tasks, section.Where("tasks"));
  return {std::move(vectors), section.Where()};
}

std::optional<TaskKey> TaskKey::Find(const Config& config) {
  if (!config.Has(kSection)) return std::nullopt;
  return FromConfig(config.Sub(kSection));
}

std::span<const float> TaskKey::Of(const std::string& task, std::string_view whose) const {
  if (const auto found = vectors_.find(task); found != vectors_.end()) return found->second;
  const std::vector<std::string> names = NamesOf(vectors_);
  const auto nearest = config::NearestName(task, names);
  throw ConfigError("{}: {} is '{}', which is none of its tasks{} They are: {}", where_, whose,
                    task, nearest ? fmt::format("; did you mean '{}'?", *nearest) : ".",
                    core::ListSome(names, kShownTasks));
}

}  // namespace dp_bench::data
