#include "task/output_folder.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "core/console.h"
#include "core/system_error.h"
#include "run/run_contents.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;

}  // namespace

OutputFolder::OutputFolder(fs::path path, OldRun old_run, core::Communicator& ranks)
    : ranks_(ranks), path_(std::move(path)), old_run_(old_run) {
  if (!ranks_.is_root()) return;
  try {
    Make();
    lock_.emplace(path_);
    if (old_run_ == OldRun::kContinue) return;
    run::RequireNoRun(path_, old_run_ != OldRun::kRefuse, old_run_ == OldRun::kOverwrite);
  } catch (...) {
    lock_.reset();
    RemoveMade();
    throw;
  }
}

OutputFolder::OutputFolder(const Experiment& experiment, core::Communicator& ranks)
    : ranks_(ranks), old_run_(OldRun::kRefuse) {
  if (ranks_.is_root()) {
    // if two runs start in the same second, the second one tries the next name
    for (int n = 1; made_.empty() || made_.back() != path_; ++n) {
      path_ = RunFolderName(experiment, n);
      Make();
    }
    lock_.emplace(path_);
  }
  path_ = ranks_.FromRoot(path_.string());
}

OutputFolder::~OutputFolder() {
  lock_.reset();
  if (!is_begun_) RemoveMade();
}

void OutputFolder::Begin() {
  is_begun_ = true;
  core::PrintResult("run folder: {}\n", path_.string());
  if (ranks_.is_root() && old_run_ == OldRun::kOverwrite) run::RemoveEvaluation(path_);
  ranks_.Barrier();
}

void OutputFolder::Make() {
  fs::path existing = path_;
  std::vector<fs::path> missing;
  while (!existing.empty() && !fs::exists(existing)) {
    missing.insert(missing.begin(), existing);
    existing = existing.parent_path();
  }
  for (const fs::path& folder : missing) {
    std::error_code error;
    if (fs::create_directory(folder, error)) made_.push_back(folder);
    if (error) core::ThrowSystemError("make the folder", folder, error);
  }
}

void OutputFolder::RemoveMade() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    std::error_code not_empty;  // another process uses it
    fs::remove(*folder, not_empty);
  }
  made_.clear();
}

}  // namespace dp_bench::task
