// What the readers of all formats share: which part of the files a key is, how much memory may be
// taken, and steps that are kept in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/reader/chunk_cache.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"

namespace dp_bench::reader {

inline constexpr double kMinFps = 1e-3;
inline constexpr double kMaxFps = 1e5;
inline constexpr double kBytesPerMb = 1 << 20;
inline constexpr double kMaxMemoryMb = 1e7;  // of the param memory_limit_mb
inline constexpr const char* kAction = "action";

/// Where a key comes from: an entry of the param `keys`.
struct KeyConfig {
  std::string source;                   // array or feature; empty: that of the key without a map
  std::optional<KeyType> type = {};     // none: what the source looks like
  std::vector<std::string> names = {};  // the channels, in this order; none for all. LeRobot only
  std::optional<std::int64_t> begin = {};  // or a range of them
  std::optional<std::int64_t> end = {};
  Shape shape = {};                         // of the key, if its numbers are no list. LeRobot only
  std::optional<double> mm_per_level = {};  // depth in images of 8 bits. LeRobot only

  bool is_sliced() const { return begin || end; }
};

/// The numbers of a step that a key takes: [begin, end).
struct Slice {
  std::int64_t begin;
  std::int64_t end;
};

/// Of `n` per step. Throws what `refuse` throws if they do not exist.
Slice SliceOf(const KeyConfig& config, std::int64_t n,
              const std::function<void(const std::string&)>& refuse);

using KeyConfigs = std::map<std::string, KeyConfig>;

/// Reads {"<source>": ..., "type": ..., "begin": ..., "end": ...}, where `source` is the word of
/// the format, "array" or "feature".
KeyConfig ReadKeyConfig(const Config& key, const char* source, const char* source_help);

/// Reads the param `keys`; empty if it is not there. Throws Error{kConfig} without an action, for
/// which `example` shows an entry.
KeyConfigs ReadKeyConfigs(const Config& params, const char* help,
                          const std::function<KeyConfig(const Config&)>& read,
                          std::string_view example);

/// `asked`, with empty sources taken from `all`, the keys without a map. Throws Error{kConfig} that
/// names these for a key that is not among them; `source` is as in ReadKeyConfig.
KeyConfigs CompleteKeys(const KeyConfigs& asked, const std::function<const KeyConfigs&()>& all,
                        const std::string& path, std::string_view source);

/// "low_dim", "rgb" or "depth", or else nothing.
std::optional<KeyType> ParseKeyType(std::string_view name);

/// How many threads decode at once: one per processor that this process may use.
int NumDecoderThreads();

/// What a reader may hold in memory: the param memory_limit_mb.
class MemoryBudget {
 public:
  /// The first `n_uncounted` bytes are free.
  explicit MemoryBudget(double limit_mb, double n_uncounted = 0.0)
      : limit_(limit_mb * kBytesPerMb), n_uncounted_(n_uncounted) {}

  double limit() const { return limit_; }  // [bytes]
  double all() const { return limit_ + n_uncounted_; }
  double held() const { return held_; }
  double left() const { return limit_ - Counted(held_); }

  /// How much of so many bytes counts.
  double Counted(double bytes) const;

  /// Takes memory for what the limit must have room for. Throws Error{kConfig} if it does not have
  /// it, also for `scratch` bytes while `what` is read; Error{kData} if the machine has less.
  void Hold(double bytes, const std::string& what, double scratch = 0.0);

  /// Throws Error{kConfig} if a cache of so many bytes is more than the machine has.
  void RequireMachineHas(double bytes) const;

  /// Throws Error{kConfig}: the limit is too low because of `what`, which needs `needed` bytes.
  [[noreturn]] void Refuse(const std::string& what, double needed) const;

 private:
  double limit_;
  double n_uncounted_;
  double held_ = 0.0;
};

/// [3, pixels] of each step become [pixels, 3].
void InterleavePlanes(std::size_t step_bytes, std::span<std::byte> steps);

/// A dataset whose numbers are in memory. A reader of a format derives from it.
class KeyedDataset : public Dataset {
 public:
  const DatasetSpec& spec() const final { return spec_; }
  std::span<const std::int64_t> episode_ends() const final { return ends_; }

 protected:
  /// All steps of a source, of which a key is a part.
  struct Held {
    const PageBuffer* steps = nullptr;       // null: ReadImages reads them
    std::size_t step_bytes = 0;              // of the source
    std::size_t offset = 0;                  // of the key in a step
    std::vector<std::size_t> channels = {};  // float32 numbers of a step; empty: consecutive bytes
  };

  /// Does the work of Read for a key that is not held.
  virtual void ReadImages(std::size_t key, std::int64_t begin, std::int64_t end,
                          std::span<std::byte> out) const = 0;

  void DoRead(int key, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const final;

  /// What a key takes of `all`, a name or another value for each number of its source; none if they
  /// are not as many.
  template <class T>
  std::vector<T> PartOf(int key, const std::vector<T>& all) const {
    const KeySpec& spec = spec_.keys.at(static_cast<std::size_t>(key));
    const Held& held = held_.at(static_cast<std::size_t>(key));
    if (spec.type != KeyType::kLowDim || all.size() * sizeof(float) != held.step_bytes) return {};
    std::vector<T> part;
    for (const std::size_t channel : held.channels) part.push_back(all[channel]);
    if (!part.empty()) return part;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(held.offset / sizeof(float));
    return {begin, begin + spec.NumElements()};
  }

  std::int64_t n_steps() const { return ends_.back(); }
  std::int64_t BeginOf(std::size_t episode) const { return episode == 0 ? 0 : ends_[episode - 1]; }

  DatasetSpec spec_;
  std::span<const std::int64_t> ends_;
  std::vector<Held> held_;  // one per key of spec_
};

// What a reader tells the user on standard error; plugins include nothing else that can.

/// Something is usual, but worth knowing.
void TellUser(std::string_view message);

/// Something may be wrong, or is not used.
void WarnUser(std::string_view message);

/// The texts with semicolons, the first ones if there are many.
std::string ListFirst(std::span<const std::string> texts);

}  // namespace dp_bench::reader
