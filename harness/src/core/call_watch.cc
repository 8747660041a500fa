#include "core/call_watch.h"

#include <fmt/format.h>

#include <mutex>
#include <set>
#include <utility>

namespace dp_bench::core {
namespace {

struct Watches {
  std::mutex mutex;
  std::set<const CallWatch*> all;
};

std::uint64_t NextId() {
  static std::atomic<std::uint64_t> n{0};
  return ++n;
}

// Never destroyed: a thread may use it while the program ends.
Watches& TheWatches() {
  static auto* const watches = new Watches();
  return *watches;
}

}  // namespace

CallWatch::CallWatch(std::string name) : name_(std::move(name)), id_(NextId()) {
  const std::lock_guard lock(TheWatches().mutex);
  TheWatches().all.insert(this);
}

CallWatch::~CallWatch() {
  const std::lock_guard lock(TheWatches().mutex);
  TheWatches().all.erase(this);
}

void OpenCalls::Refresh() {
  entries_.clear();
  const std::lock_guard lock(TheWatches().mutex);
  for (const CallWatch* watch : TheWatches().all) {
    const std::uint64_t n = watch->n_.load(std::memory_order_relaxed);
    if (n % 2 == 1) entries_.push_back({watch, watch->id_, n});
  }
}

std::string OpenCalls::StillOpen() const {
  const std::lock_guard lock(TheWatches().mutex);
  for (const Entry& entry : entries_) {
    if (!TheWatches().all.contains(entry.watch) || entry.watch->id_ != entry.id) continue;
    if (entry.watch->n_.load(std::memory_order_relaxed) != entry.n) continue;
    return fmt::format("{}, during {}", entry.watch->name_,
                       entry.watch->call_.load(std::memory_order_relaxed));
  }
  return "";
}

}  // namespace dp_bench::core
