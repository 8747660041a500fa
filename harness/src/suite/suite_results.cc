#include "suite/suite_results.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/atomic_file.h"
#include "data/replay_writer.h"
#include "run/run_folder.h"

namespace dp_bench::suite {
namespace {

namespace fs = std::filesystem;

// The video of the first filmed episode.
std::string VideoOf(const run::RunFolder& run, const std::string& folder) {
  for (const run::EpisodeRecord& record : run.episodes) {
    if (!record.video.empty() && run.FilmOf(record)) return folder + "/" + record.video;
  }
  return "";
}

}  // namespace

SuiteResults::SuiteResults(const SuiteFile& suite, std::span<const SuiteStep> steps,
                           const fs::path& folder, const std::vector<fs::path>& others)
    : suite_(suite), steps_(steps), folder_(folder) {
  for (const fs::path& file : others) TakeTable(file);
  if (fs::exists(folder / kSuiteFile)) TakeTable(folder / kSuiteFile);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (IsDone(steps[i])) Take(i);
  }
}

void SuiteResults::TakeTable(const fs::path& file) {
  const compare::SuiteTable table = compare::ReadSuiteTable(file);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].cell) continue;
    const auto found = std::ranges::find(table.cells, steps_[i].cell->config_sha256,
                                         &compare::SuiteCell::config_sha256);
    if (found == table.cells.end()) continue;
    compare::SuiteCell cell = *found;
    cell.policy = steps_[i].cell->policy;  // it may have another name now
    cell.task = steps_[i].cell->task;
    cell.seed = steps_[i].cell->seed;
    cell.folder = steps_[i].cell->folder;
    cells_[i] = std::move(cell);
  }
  for (const compare::SuiteExpert& expert : table.experts) experts_[expert.task] = expert;
}

std::vector<bool> SuiteResults::known() const {
  std::vector<bool> known(steps_.size(), false);
  for (const auto& [step, cell] : cells_) known[step] = true;
  return known;
}

void SuiteResults::TakeExpert(const SuiteStep& step) {
  const nlohmann::json attributes = data::ReadReplayAttributes(step.product);
  const auto n_kept = static_cast<int>(attributes.at("episodes").at("seed").size());
  const auto& successes = attributes.at("episodes").at("success");
  const auto n_success = static_cast<int>(std::ranges::count(successes, nlohmann::json(true)));
  const auto n_failed = static_cast<int>(attributes.at("failures").size());
  for (const std::string& task : step.tasks) {
    const compare::SuiteExpert found = {
        .task = task, .n_success = n_success, .n = n_kept + n_failed};
    compare::SuiteExpert& expert = experts_[task];
    if (found.n > expert.n) expert = found;  // of several sets the largest
  }
}

void SuiteResults::Take(std::size_t step) {
  const SuiteStep& done = steps_[step];
  if (done.kind == StepKind::kCollect) TakeExpert(done);
  if (!done.cell) return;
  const run::RunFolder run = run::ReadRunFolder(done.product);
  compare::SuiteCell cell = compare::OutcomesOf(run);
  cell.policy = done.cell->policy;
  cell.task = done.cell->task;
  cell.seed = done.cell->seed;
  cell.config_sha256 = done.cell->config_sha256;
  cell.folder = done.cell->folder;
  if (const auto cost = run.ReadCost()) costs_[cell.folder] = *cost;
  if (std::string video = VideoOf(run, cell.folder); !video.empty()) {
    videos_[cell.folder] = std::move(video);
  }
  cells_[step] = std::move(cell);
}

compare::SuiteTable SuiteResults::Table() const {
  compare::SuiteTable table = {.name = suite_.name, .seeds = suite_.seeds};
  for (const SuitePolicy& policy : suite_.policies) {
    table.policies.push_back(policy.name);
    for (const SuiteTask& task : suite_.tasks) {
      for (const auto& [step, cell] : cells_) {  // seed by seed, as the steps
        if (cell.policy == policy.name && cell.task == task.name) table.cells.push_back(cell);
      }
    }
  }
  for (const SuiteTask& task : suite_.tasks) {
    table.tasks.push_back({.name = task.name, .group = task.group});
    const auto expert = experts_.find(task.name);
    if (expert != experts_.end()) table.experts.push_back(expert->second);
  }
  return table;
}

report::SuiteExtras SuiteResults::Extras(const std::vector<StepState>& states) const {
  report::SuiteExtras extras = {.costs = costs_, .videos = videos_};
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].cell && !cells_.contains(i)) ++extras.n_missing;
    if (i >= states.size() || states[i] != StepState::kFailed) continue;
    extras.failed.push_back(steps_[i].title + ": " + FailureOf(steps_[i]));
  }
  return extras;
}

void SuiteResults::Write(const std::vector<StepState>& states) const {
  const compare::SuiteTable table = Table();
  core::WriteFileAtomically(folder_ / kSuiteFile,
                            std::string_view(compare::ToJson(table).dump(1) + "\n"));
  report::WriteSuitePages(table, Extras(states), folder_);
}

}  // namespace dp_bench::suite
