// The formats are those of lerobot 0.3 to 0.6 (scripts/lerobot_eval.py), vla-eval 0.8 and
// diffusion_policy (env_runner/base_image_runner.py).
#include "run/foreign_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/parse_number.h"
#include "run/manifest.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxResultBytes = std::size_t{64} << 20;
constexpr std::string_view kLerobotFile = "eval_info.json";
constexpr const char* kRewardKey = "test/sim_max_reward_";

EpisodeRecord Episode(std::uint64_t seed, bool success, double score) {
  EpisodeRecord record = {.split = "test", .seed = seed, .score = score, .success = success};
  return record;
}

// The episodes of one task; a seed counts from 0 within the task unless the file has seeds.
struct TaskResult {
  std::string name;
  std::vector<EpisodeRecord> episodes;
};

// Gives the tasks their ranges of seeds and the episodes their numbers.
void Adopt(std::vector<TaskResult> tasks, const core::JsonView& file, RunFolder* run) {
  std::ranges::sort(tasks, {}, &TaskResult::name);
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    if (k > 0 && tasks[k].name == tasks[k - 1].name) {
      file.Fail("two tasks have the name '{}'", tasks[k].name);
    }
    run->tasks.push_back(tasks[k].name);
    for (EpisodeRecord& episode : tasks[k].episodes) {
      if (tasks.size() > 1 && episode.seed >= kSeedsPerTask) {
        file.Fail("the seed {} of the task '{}' is not below {}", episode.seed, tasks[k].name,
                  kSeedsPerTask);
      }
      episode.seed += k * kSeedsPerTask;
      run->episodes.push_back(std::move(episode));
    }
  }
}

void NumberEpisodes(RunFolder* run) {
  for (std::size_t i = 0; i < run->episodes.size(); ++i) {
    run->episodes[i].episode = static_cast<int>(i);
  }
}

// lerobot 0.3: {"per_episode": [{"episode_ix", "sum_reward", "max_reward", "success", "seed"}]}
RunFolder ReadLerobotEpisodes(const core::JsonView& file) {
  RunFolder run = {.seed_origin = "LeRobot"};
  for (const core::JsonView& row : file.Elements("per_episode")) {
    const auto seed = row.GetOptional<std::uint64_t>("seed");
    run.has_seeds = run.has_seeds && seed.has_value();
    run.episodes.push_back(
        Episode(seed.value_or(0), row.Get<bool>("success"), row.Get<double>("max_reward")));
  }
  if (run.has_seeds) return run;
  for (std::size_t i = 0; i < run.episodes.size(); ++i) run.episodes[i].seed = i;
  return run;
}

// lerobot 0.4 and later: {"per_task": [{"task_group", "task_id", "metrics": {"successes": [...],
// "max_rewards": [...]}}]}
RunFolder ReadLerobotTasks(const core::JsonView& file) {
  RunFolder run = {.seed_origin = "LeRobot", .has_seeds = false};
  std::vector<TaskResult> tasks;
  for (const core::JsonView& row : file.Elements("per_task")) {
    TaskResult task = {
        .name = fmt::format("{}/{}", row.Get<std::string>("task_group"), row.Get<int>("task_id"))};
    const core::JsonView metrics = row.At("metrics");
    const auto successes = metrics.Elements("successes");
    const auto rewards = metrics.Get<std::vector<double>>("max_rewards");
    if (successes.size() != rewards.size()) {
      metrics.Fail("expected as many successes as max_rewards, found {} and {}", successes.size(),
                   rewards.size());
    }
    for (std::size_t i = 0; i < successes.size(); ++i) {
      task.episodes.push_back(Episode(i, successes[i].As<bool>(), rewards[i]));
    }
    tasks.push_back(std::move(task));
  }
  Adopt(std::move(tasks), file, &run);
  return run;
}

// {"tasks": [{"task", "episodes": [{"episode_id", "metrics": {"success"}, "failure_reason"}]}]}. An
// episode that broke has no metrics.
RunFolder ReadVlaEval(const core::JsonView& file) {
  RunFolder run = {.seed_origin = "vla-eval"};
  std::vector<TaskResult> tasks;
  for (const core::JsonView& row : file.Elements("tasks")) {
    TaskResult task = {.name = row.Get<std::string>("task")};
    for (const core::JsonView& episode : row.Elements("episodes")) {
      const auto id = episode.Get<std::uint64_t>("episode_id");
      EpisodeRecord record = Episode(id, false, 0.0);
      if (episode.Has("metrics")) {
        const core::JsonView success = episode.At("metrics").At("success");
        record.success =
            success.json().is_boolean() ? success.As<bool>() : success.As<double>() > 0.5;
        record.score = record.success ? 1.0 : 0.0;
      }
      record.failure_reason = episode.GetOptional<std::string>("failure_reason");
      if (!record.failure_reason && !episode.Has("metrics")) record.failure_reason = "no metrics";
      task.episodes.push_back(std::move(record));
    }
    tasks.push_back(std::move(task));
  }
  Adopt(std::move(tasks), file, &run);
  return run;
}

RunFolder ReadDiffusionPolicy(const core::JsonView& file) {
  RunFolder run = {.seed_origin = "diffusion_policy"};
  for (const auto& [key, value] : file.Members()) {
    if (!key.starts_with(kRewardKey)) continue;
    const std::string digits = key.substr(std::string_view(kRewardKey).size());
    const auto seed = core::ParseNumber<std::uint64_t>(digits);
    if (!seed) value.Fail("expected a seed behind '{}', found '{}'", kRewardKey, digits);
    const auto reward = value.As<double>();
    run.episodes.push_back(Episode(*seed, reward >= 1.0, reward));
  }
  std::ranges::sort(run.episodes, {}, &EpisodeRecord::seed);
  run.notes.push_back(
      "diffusion_policy's log has no success: an episode counts as successful if its highest "
      "reward is 1");
  return run;
}

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string_view WithoutBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::string LowerCase(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

class Table {
 public:
  Table(std::string_view text, std::string name) : left_(text), name_(std::move(name)) {}

  // False at the end. Cells may be quoted as in RFC 4180; a line break within quotes is not read.
  // Blanks around cells do not count.
  bool NextRow(std::vector<std::string>* cells) {
    do {
      if (left_.empty()) return false;
      const std::size_t end = std::min(left_.find('\n'), left_.size());
      row_ = WithoutBlanks(left_.substr(0, end));
      left_.remove_prefix(std::min(left_.size(), end + 1));
      ++line_;
    } while (row_.empty());
    Split(cells);
    return true;
  }

  template <class... T>
  [[noreturn]] void Fail(fmt::format_string<T...> fault, T&&... values) const {
    throw DataError("{}, line {}: {}", name_, line_,
                    fmt::format(fault, std::forward<T>(values)...));
  }

 private:
  void Split(std::vector<std::string>* cells) const {
    cells->assign(1, "");
    bool is_quoted = false;
    for (std::size_t i = 0; i < row_.size(); ++i) {
      if (row_[i] == '"') {
        const bool is_escaped = is_quoted && row_.substr(i + 1).starts_with('"');
        if (is_escaped) cells->back() += row_[++i];
        is_quoted = is_escaped || !is_quoted;
      } else if (row_[i] == ',' && !is_quoted) {
        cells->emplace_back();
      } else {
        cells->back() += row_[i];
      }
    }
    if (is_quoted) Fail("a quote is not closed");
    for (std::string& cell : *cells) cell = std::string(WithoutBlanks(cell));
  }

  std::string_view left_;
  std::string_view row_;
  std::string name_;
  int line_ = 0;
};

template <class T>
T NumberIn(const std::string& cell, const char* what, const Table& table) {
  const std::optional<T> value = core::ParseNumber<T>(cell);
  if (!value) table.Fail("expected {}, found '{}'", what, cell);
  return *value;
}

bool TruthIn(const std::string& cell, const Table& table) {
  const std::string text = LowerCase(cell);
  for (const char* yes : {"1", "1.0", "true", "yes"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "0.0", "false", "no"}) {
    if (text == no) return false;
  }
  table.Fail("expected success as 1 or 0, true or false, yes or no, found '{}'", cell);
}

std::optional<std::size_t> ColumnOf(const std::vector<std::string>& head, const char* name) {
  const auto place = std::ranges::find(head, name, &LowerCase);
  if (place == head.end()) return std::nullopt;
  return static_cast<std::size_t>(place - head.begin());
}

RunFolder ReadTable(std::string_view text, const fs::path& file) {
  RunFolder run = {.seed_origin = "a table"};
  Table table(text, file.string());
  std::vector<std::string> head;
  table.NextRow(&head);
  const auto seed = ColumnOf(head, "seed");
  const auto success = ColumnOf(head, "success");
  if (!seed || !success) {
    table.Fail(
        "expected a run folder, eval_info.json of LeRobot, eval_log.json of diffusion_policy, a "
        "result of vla-eval, or a CSV whose first line names the columns seed and success");
  }
  const auto score = ColumnOf(head, "score");
  const auto task = ColumnOf(head, "task");
  std::vector<TaskResult> tasks;
  for (std::vector<std::string> row; table.NextRow(&row);) {
    if (row.size() != head.size()) {
      table.Fail("expected {} columns, found {}", head.size(), row.size());
    }
    const bool succeeded = TruthIn(row[*success], table);
    const double value = score ? NumberIn<double>(row[*score], "a score", table) : succeeded;
    if (!std::isfinite(value)) table.Fail("expected a finite score");
    const std::string name = task ? row[*task] : "";
    auto place = std::ranges::find(tasks, name, &TaskResult::name);
    if (place == tasks.end()) place = tasks.insert(place, {.name = name});
    place->episodes.push_back(
        Episode(NumberIn<std::uint64_t>(row[*seed], "a seed", table), succeeded, value));
  }
  const nlohmann::json none;
  const std::string name = file.string();
  Adopt(std::move(tasks), core::JsonView(none, name), &run);
  if (!task) run.tasks.clear();
  return run;
}

RunFolder ReadJson(const core::JsonView& file) {
  if (file.Has("per_episode")) return ReadLerobotEpisodes(file);
  if (file.Has("per_task")) return ReadLerobotTasks(file);
  if (file.Has("tasks")) return ReadVlaEval(file);
  if (file.Has(kRunIdKey)) file.Fail("this file belongs to a run of dp_bench: give its folder");
  return ReadDiffusionPolicy(file);
}

bool LooksLikeJson(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{';
}

}  // namespace

RunFolder ParseForeignResult(std::string_view text, const fs::path& file) {
  RunFolder run;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (LooksLikeJson(text)) {
    const std::string name = file.string();
    const nlohmann::json json = core::ParseJson(text, name);
    run = ReadJson(core::JsonView(json, name));
  } else {
    run = ReadTable(text, file);
  }
  run.path = file;
  NumberEpisodes(&run);
  if (run.episodes.empty()) {
    throw DataError(
        "{}: expected the results of episodes (of LeRobot, vla-eval or diffusion_policy, or a "
        "CSV), found none",
        file.string());
  }
  return run;
}

RunFolder ReadForeignResult(const fs::path& file) {
  return ParseForeignResult(core::ReadTextFile(file, kMaxResultBytes), file);
}

RunFolder ReadResult(const fs::path& path) {
  if (!fs::is_directory(path)) return ReadForeignResult(path);
  if (!fs::exists(path / kEpisodesFile) && !fs::exists(path / kManifestFile)) {
    for (const std::string_view file : {kLerobotFile, kEvalLogFile}) {
      if (fs::is_regular_file(path / file)) return ReadForeignResult(path / file);
    }
  }
  return ReadRunFolder(path);
}

}  // namespace dp_bench::run
