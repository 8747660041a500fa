#include "core/unfinished.h"

#include <mutex>
#include <set>
#include <system_error>
#include <utility>

namespace dp_bench {
namespace {

struct UnfinishedPaths {
  std::mutex mutex;
  std::multiset<std::filesystem::path> paths;
};

// Never destroyed: a signal may come while the program ends.
UnfinishedPaths& AllUnfinished() {
  static auto* const all = new UnfinishedPaths;
  return *all;
}

}  // namespace

Unfinished::Unfinished(std::filesystem::path path) : path_(std::move(path)) {
  UnfinishedPaths& all = AllUnfinished();
  const std::lock_guard lock(all.mutex);
  all.paths.insert(path_);
}

Unfinished::~Unfinished() {
  UnfinishedPaths& all = AllUnfinished();
  const std::lock_guard lock(all.mutex);
  all.paths.erase(all.paths.find(path_));
}

void RemoveUnfinishedAndHold() {
  UnfinishedPaths& all = AllUnfinished();
  all.mutex.lock();
  for (const std::filesystem::path& path : all.paths) {
    std::error_code ignored;  // the program ends with the signal that it got
    std::filesystem::remove_all(path, ignored);
  }
}

}  // namespace dp_bench
