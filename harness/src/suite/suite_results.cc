#include "suite/suite_results.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "compare/pairing.h"
#include "compare/suite_ranking.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/folder_lock.h"
#include "data/replay_writer.h"
#include "report/html_report.h"
#include "run/run_files.h"
#include "run/run_folder.h"

namespace dp_bench::suite {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestWrite(30);

// The video of the first episode that has one.
std::string VideoOf(const run::RunFolder& run, const std::string& folder) {
  for (const run::EpisodeRecord& record : run.episodes) {
    if (!record.video.empty() && run.VideoOf(record)) return folder + "/" + record.video;
  }
  return "";
}

// The others hold it only while they write.
core::FolderLock WaitForLock(const fs::path& folder) {
  const auto until = std::chrono::steady_clock::now() + kLongestWrite;
  while (true) {
    try {
      return core::FolderLock(folder);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage || std::chrono::steady_clock::now() > until) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

SuiteResults::SuiteResults(const SuiteFile& suite, std::span<const SuiteStep> steps,
                           const fs::path& folder, const std::vector<fs::path>& others)
    : suite_(suite), steps_(steps), folder_(folder) {
  TakeOwnFile();
  for (const fs::path& file : others) TakeTable(compare::ReadSuiteTable(file));
  TakeAll();
}

void SuiteResults::TakeOwnFile() {
  if (!fs::exists(folder_ / kSuiteFile)) return;
  const compare::SuiteTable own = compare::ReadSuiteTable(folder_ / kSuiteFile);
  if (own.name != suite_.name) {
    throw UsageError("'{}' is the folder of the suite '{}', not of '{}'; give another --output",
                     folder_.string(), own.name, suite_.name);
  }
  TakeTable(own);
  KeepOthers(own);
}

// With a budget, one source may have more test seeds of a cell than another. At equal numbers, what
// was read in a folder stays.
void SuiteResults::TakeTable(const compare::SuiteTable& table) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].kind == StepKind::kCollect) {
      const auto expert =
          std::ranges::find(table.experts, steps_[i].hash, &compare::SuiteExpert::config_sha256);
      if (expert == table.experts.end()) continue;
      for (const std::string& task : steps_[i].tasks) KeepExpert(task, *expert);
    }
    if (!steps_[i].cell) continue;
    const compare::SuiteCell& wanted = *steps_[i].cell;
    for (const std::vector<compare::SuiteCell>* cells : {&table.cells, &table.other_cells}) {
      const auto found =
          std::ranges::find(*cells, wanted.config_sha256, &compare::SuiteCell::config_sha256);
      if (found == cells->end()) continue;
      compare::SuiteCell cell = *found;
      cell.policy = wanted.policy;  // it may have another name now
      cell.task = wanted.task;
      cell.seed = wanted.seed;
      if (!fs::exists(folder_ / cell.folder)) cell.folder = wanted.folder;
      compare::SuiteCell& kept = cells_.try_emplace(i, cell).first->second;
      if (cell.successes.size() > kept.successes.size()) kept = std::move(cell);
      break;
    }
  }
}

// Cells of other settings stay in the file.
void SuiteResults::KeepOthers(const compare::SuiteTable& own) {
  const auto keep = [this](const compare::SuiteCell& cell) {
    const bool is_of_step = std::ranges::any_of(steps_, [&](const SuiteStep& step) {
      return step.cell && step.cell->config_sha256 == cell.config_sha256;
    });
    if (is_of_step) return;
    const auto kept =
        std::ranges::find(other_cells_, cell.config_sha256, &compare::SuiteCell::config_sha256);
    if (kept == other_cells_.end()) {
      other_cells_.push_back(cell);
    } else if (cell.successes.size() > kept->successes.size()) {
      *kept = cell;
    }
  };
  std::ranges::for_each(own.cells, keep);
  std::ranges::for_each(own.other_cells, keep);
}

void SuiteResults::TakeAll() {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto cell = cells_.find(i);
    const bool has_fewer =
        cell != cells_.end() && std::ssize(cell->second.successes) < steps_[i].n_test;
    // also for costs and videos
    if ((has_fewer || !taken_.contains(i)) && IsDone(steps_[i])) Take(i);
  }
}

std::vector<bool> SuiteResults::known() const {
  std::vector<bool> known(steps_.size(), false);
  for (const auto& [step, cell] : cells_) {
    known[step] = std::ssize(cell.successes) >= steps_[step].n_test;
  }
  return known;
}

const compare::BudgetRound& SuiteResults::NextRound(int n_budget) {
  compare::SuiteTable table = Table();
  table.cells.clear();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].cell) continue;
    const auto cell = cells_.find(i);
    table.cells.push_back(cell == cells_.end() ? *steps_[i].cell : cell->second);
  }
  round_ = compare::NextRound(table, n_budget);
  return *round_;
}

void SuiteResults::TakeExpert(const SuiteStep& step) {
  const nlohmann::json attributes = data::ReadReplayAttributes(step.product);
  const auto n_kept = static_cast<int>(attributes.at("episodes").at("seed").size());
  const auto& successes = attributes.at("episodes").at("success");
  const auto n_success = static_cast<int>(std::ranges::count(successes, nlohmann::json(true)));
  const auto n_failed = static_cast<int>(attributes.at("failures").size());
  for (const std::string& task : step.tasks) {
    KeepExpert(task, {.config_sha256 = step.hash, .n_success = n_success, .n = n_kept + n_failed});
  }
}

// Of several sets the largest.
void SuiteResults::KeepExpert(const std::string& task, compare::SuiteExpert found) {
  found.task = task;
  compare::SuiteExpert& kept = experts_.try_emplace(task, found).first->second;
  if (found.n > kept.n) kept = std::move(found);
}

void SuiteResults::Take(std::size_t step) {
  const SuiteStep& done = steps_[step];
  taken_.insert(step);
  try {
    if (done.kind == StepKind::kCollect) TakeExpert(done);
    if (!done.cell) return;
    compare::SuiteCell cell = Read(done);
    compare::SuiteCell& kept = cells_.try_emplace(step, cell).first->second;
    if (cell.successes.size() >= kept.successes.size()) kept = std::move(cell);
    unreadable_.erase(step);
  } catch (const Error& error) {
    unreadable_[step] = error.what();
    core::LogWarning("{}: {}", done.title, error.what());
  }
}

// Of the processor time of a training for all tasks, for one of the cells that need it [s].
double SuiteResults::ShareOfTraining(const SuiteStep& cell) const {
  double share = 0.0;
  for (const std::size_t training : cell.needs) {
    if (steps_[training].kind != StepKind::kTrain) continue;
    const auto cost = run::RunFolder{.path = steps_[training].product}.ReadCost();
    const auto n_cells = std::ranges::count_if(steps_, [training](const SuiteStep& step) {
      return std::ranges::find(step.needs, training) != step.needs.end();
    });
    if (cost) share += cost->cpu_s / static_cast<double>(n_cells);
  }
  return share;
}

compare::SuiteCell SuiteResults::Read(const SuiteStep& step) {
  const run::RunFolder run = run::ReadRunFolder(step.product);
  compare::SuiteCell cell = compare::OutcomesOf(run);
  cell.policy = step.cell->policy;
  cell.task = step.cell->task;
  cell.seed = step.cell->seed;
  cell.config_sha256 = step.cell->config_sha256;
  cell.env_version = compare::EnvVersionOf(run);
  cell.folder = step.cell->folder;
  if (const auto cost = run.ReadCost()) {
    costs_[cell.folder] = *cost;
    training_cpu_s_[cell.folder] = ShareOfTraining(step);
  }
  if (std::string video = VideoOf(run, cell.folder); !video.empty()) {
    videos_[cell.folder] = std::move(video);
  }
  return cell;
}

compare::SuiteTable SuiteResults::Table() const {
  compare::SuiteTable table = {.name = suite_.name, .seeds = suite_.seeds};
  for (const SuitePolicy& policy : suite_.policies) {
    table.policies.push_back(policy.name);
    for (const SuiteTask& task : suite_.tasks) {
      for (std::size_t i = 0; i < steps_.size(); ++i) {  // seed by seed
        const std::optional<compare::SuiteCell>& wanted = steps_[i].cell;
        if (!wanted || wanted->policy != policy.name || wanted->task != task.name) continue;
        const auto cell = cells_.find(i);
        if (cell != cells_.end()) {
          table.cells.push_back(cell->second);
        } else {
          table.missing.push_back({policy.name, task.name, wanted->seed});
        }
      }
    }
  }
  for (const SuiteTask& task : suite_.tasks) {
    table.tasks.push_back({.name = task.name, .group = task.group});
    const auto expert = experts_.find(task.name);
    if (expert != experts_.end()) table.experts.push_back(expert->second);
  }
  table.other_cells = other_cells_;
  return table;
}

report::SuiteExtras SuiteResults::Extras(const std::vector<StepState>& states) const {
  report::SuiteExtras extras = {.costs = costs_,
                                .training_cpu_s = training_cpu_s_,
                                .videos = videos_,
                                .failed = compare::VersionFaults(Table()),
                                .round = round_};
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto unreadable = unreadable_.find(i);
    if (unreadable != unreadable_.end()) {
      extras.failed.push_back(steps_[i].title + ": " + unreadable->second);
    }
    if (i >= states.size() || states[i] != StepState::kFailed) continue;
    extras.failed.push_back(steps_[i].title + ": " + FailureOf(steps_[i]));
  }
  return extras;
}

// A kill may have come between the results of a cell and its report.
void SuiteResults::WriteMissingReports() const {
  for (const auto& [step, cell] : cells_) {
    const fs::path& product = steps_[step].product;
    if (!taken_.contains(step) || fs::exists(product / run::kReportFile)) continue;
    try {
      report::WriteHtmlReport(run::ReadRunFolder(product));
    } catch (const Error& error) {
      core::LogWarning("{} has no report: {}", steps_[step].title, error.what());
    }
  }
}

void SuiteResults::Write(const std::vector<StepState>& states) {
  WriteMissingReports();
  const core::FolderLock lock = WaitForLock(folder_);
  TakeOwnFile();
  const compare::SuiteTable table = Table();
  nlohmann::json json = compare::ToJson(table);
  json["ranking"] = compare::ToJson(table, compare::RankingOf(table));
  if (round_) json["budget"] = compare::ToJson(*round_, table);
  core::WriteFileAtomically(folder_ / kSuiteFile, json.dump(1) + "\n");
  report::WriteSuitePages(table, Extras(states), folder_);
}

}  // namespace dp_bench::suite
