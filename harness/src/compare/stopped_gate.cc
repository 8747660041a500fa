// The part of gate_report.h about going on where an INCONCLUSIVE gate stopped.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compare/gate_report.h"
#include "core/atomic_file.h"
#include "core/json.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

constexpr std::size_t kMaxGateBytes = std::size_t{64} << 20;

[[noreturn]] void Refuse(const std::string& file, const std::string& fault) {
  throw Error(ErrorCode::kData,
              fmt::format("{} is not what dp_bench gate --json wrote: {}", file, fault));
}

GateStatus StatusFrom(const std::string& name) {
  for (const GateStatus status : {GateStatus::kPass, GateStatus::kFail, GateStatus::kInconclusive,
                                  GateStatus::kNotComparable, GateStatus::kInfra}) {
    if (name == StatusName(status)) return status;
  }
  throw Error(ErrorCode::kData, fmt::format("its status is '{}'", name));
}

StoppedGate StoppedGateFrom(const JsonView& json) {
  if (json.Get<std::string>("format") != "dp_bench.gate.v1") {
    throw Error(ErrorCode::kData, "its format is not dp_bench.gate.v1");
  }
  const JsonView settings = json.At("config");
  StoppedGate stopped = {.status = StatusFrom(json.Get<std::string>("status")),
                         .config = {.margin = settings.Get<double>("margin"),
                                    .alpha = settings.Get<double>("alpha"),
                                    .beta = settings.Get<double>("beta"),
                                    .max_pairs = settings.Get<int>("max_pairs"),
                                    .block_size = settings.Get<int>("block_size")}};
  const std::vector<JsonView> tasks = json.Elements("tasks");
  const SequentialTestConfig of_task = ConfigOfTask(stopped.config, tasks.size());
  for (const JsonView& row : tasks) {
    stopped.tasks.push_back(
        {.task = row.Get<std::string>("task"),
         .progress = {.test = SequentialTest::FromJson(row.At("test").json()),
                      .outcomes_hash = row.Get<std::string>("outcomes_hash"),
                      .checkpoint_hash = row.Get<std::string>("checkpoint_hash")}});
    if (stopped.tasks.back().progress.test.config() != of_task) {
      throw Error(ErrorCode::kData, fmt::format("the test of '{}' has other settings than the gate",
                                                stopped.tasks.back().task));
    }
  }
  if (stopped.tasks.empty()) throw Error(ErrorCode::kData, "it has no tasks");
  return stopped;
}

std::string Joined(std::vector<std::string> names) {
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, "; "));
}

}  // namespace

StoppedGate ReadStoppedGate(const std::filesystem::path& file) {
  return ParseStoppedGate(ReadTextFile(file, kMaxGateBytes), file.string());
}

StoppedGate ParseStoppedGate(std::string_view text, const std::string& what) {
  try {
    const nlohmann::json json = ParseJson(text, "the file");
    return StoppedGateFrom(JsonView(json, "the file"));
  } catch (const Error& fault) {
    Refuse(what, fault.what());
  }
}

std::vector<Mismatch> FindChangedSettings(const StoppedGate& stopped, const AskedSettings& asked,
                                          const std::vector<TaskPair>& pairs) {
  std::vector<Mismatch> changes;
  if (stopped.status != GateStatus::kInconclusive) {
    changes.push_back({"status", std::string(StatusName(stopped.status)), "INCONCLUSIVE wanted"});
  }
  const auto compare = [&changes](const char* field, double before,
                                  const std::optional<double>& now) {
    if (!now || *now == before) return;
    changes.push_back({field, fmt::format("{}", before), fmt::format("{}", *now)});
  };
  compare("margin", stopped.config.margin, asked.margin);
  compare("alpha", stopped.config.alpha, asked.alpha);
  compare("beta", stopped.config.beta, asked.beta);
  if (asked.max_pairs && *asked.max_pairs < stopped.config.max_pairs) {
    changes.push_back({"max_pairs", std::to_string(stopped.config.max_pairs),
                       fmt::format("{}, which is fewer", *asked.max_pairs)});
  }
  std::vector<std::string> before;
  std::vector<std::string> now;
  for (const StoppedGate::Task& task : stopped.tasks) before.push_back(task.task);
  for (const TaskPair& pair : pairs) now.push_back(pair.task);
  if (Joined(before) != Joined(now)) changes.push_back({"tasks", Joined(before), Joined(now)});
  return changes;
}

std::vector<GateProgress> ProgressOf(const StoppedGate& stopped, const std::vector<TaskPair>& pairs,
                                     int max_pairs) {
  std::vector<GateProgress> progress;
  for (const TaskPair& pair : pairs) {
    const auto found = std::ranges::find(stopped.tasks, pair.task, &StoppedGate::Task::task);
    DPB_ASSERT(found != stopped.tasks.end());
    progress.push_back(found->progress);
    progress.back().test.ContinueTo(max_pairs);
  }
  return progress;
}

}  // namespace dp_bench
