// The contract of a dataset plugin: episodes of equal-length arrays, in host memory or on disk.
// Does not include LibTorch. The harness does sequence sampling, padding, splits and statistics for
// all datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/export.h"
#include "dp_bench/spec.h"

namespace dp_bench {

/// What a dataset holds.
struct DatasetSpec {
  std::vector<KeySpec> keys;  // alphabetical; named as in shape_meta, including "action"
  double fps = 0.0;           // steps per second [Hz]; 0 if the data do not say it
};

/// The smallest and largest value of each number of a key, as a file states them.
struct StatedRange {
  std::vector<double> min;
  std::vector<double> max;
};

/// Recorded episodes. One reader per file format implements it; windows, splits and padding are the
/// harness's.
class DPB_API Dataset {
 public:
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset();

  virtual const DatasetSpec& spec() const = 0;

  /// The index after the last step of each episode; strictly increasing. The last one is the number
  /// of steps.
  virtual std::span<const std::int64_t> episode_ends() const = 0;

  /// Copies steps [begin, end) of `spec().keys[key]` to `out`, (end - begin) * ByteSize() bytes in
  /// storage order. May be called from several threads at once. Throws Error{kData} if the range is
  /// outside the data, or `out` has another size; a reader may rely on that in DoRead.
  void Read(int key, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const;

  // What only some formats record; the others say nothing.

  /// What the robot was told to do in an episode; empty if it is not known.
  virtual std::string Task(std::int64_t episode) const;

  /// The name of the feature that a key was read from, such as "observation.state"; empty if the
  /// format has no features.
  virtual std::string FeatureName(int key) const;

  /// A name per number of a low_dim key; none if the format has no names for them.
  virtual std::vector<std::string> ChannelNames(int key) const;

  /// What the files say about the range of a low_dim key over all episodes; none if they do not say
  /// it for each number. It is only as good as the program that wrote it.
  virtual std::optional<StatedRange> RecordedRange(int key) const;

  /// Whether the format has features, which its keys were read from.
  bool has_features() const { return !spec().keys.empty() && !FeatureName(0).empty(); }

  /// The index of a key. Throws Error{kData} naming the existing keys if there is no such key.
  int KeyIndex(std::string_view name) const;

 protected:
  Dataset() = default;

  /// Does the work of Read, for at least one step.
  virtual void DoRead(int key, std::int64_t begin, std::int64_t end,
                      std::span<std::byte> out) const = 0;
};

}  // namespace dp_bench
