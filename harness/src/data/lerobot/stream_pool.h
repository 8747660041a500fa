// Files that stay open between reads, for all threads that read images. A thread takes the one
// that can read on, so that reading forwards decodes each image once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace dp_bench::lerobot {

/// May be used from several threads at once; no lock is held while a stream is open or read. A
/// Stream has position(): the position that it reads next.
template <class Stream>
class StreamPool {
 public:
  /// At most `max_idle` streams stay open when no thread uses them. The one that was used longest
  /// ago is closed first.
  explicit StreamPool(std::size_t max_idle) : max_idle_(max_idle) {}

  /// Calls `use` with the stream of `file` that is nearest before `position`, or any stream of the
  /// file, or what `open` returns (a unique_ptr). A stream in which `use` throws is closed.
  template <class Open, class Use>
  void With(std::int64_t file, std::int64_t position, const Open& open, const Use& use) {
    std::unique_ptr<Stream> stream = Take(file, position);
    if (stream == nullptr) stream = open();
    use(*stream);
    GiveBack(file, std::move(stream));
  }

 private:
  struct Idle {
    std::int64_t file;
    std::unique_ptr<Stream> stream;
  };

  std::unique_ptr<Stream> Take(std::int64_t file, std::int64_t position) {
    const std::lock_guard lock(mutex_);
    auto best = idle_.end();
    const auto is_better = [&](std::int64_t candidate, std::int64_t found) {
      if ((candidate <= position) != (found <= position)) return candidate <= position;
      return candidate > found;
    };
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      if (it->file != file) continue;
      if (best == idle_.end() || is_better(it->stream->position(), best->stream->position())) {
        best = it;
      }
    }
    if (best == idle_.end()) return nullptr;
    std::unique_ptr<Stream> stream = std::move(best->stream);
    idle_.erase(best);
    return stream;
  }

  void GiveBack(std::int64_t file, std::unique_ptr<Stream> stream) {
    std::unique_ptr<Stream> oldest;  // closed after the lock
    const std::lock_guard lock(mutex_);
    idle_.push_back({file, std::move(stream)});
    if (idle_.size() > max_idle_) {
      oldest = std::move(idle_.front().stream);
      idle_.pop_front();
    }
  }

  std::size_t max_idle_;
  std::mutex mutex_;
  std::list<Idle> idle_;  // the one that was used longest ago first
};

}  // namespace dp_bench::lerobot
