// The contract of a dataset plugin: episodes of equal-length arrays, in host memory or on disk. It
// includes no LibTorch. Sequence sampling, padding, splits and statistics live once, in the
// harness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/export.h"
#include "dp_bench/spec.h"

namespace dp_bench {

struct DatasetSpec {
  std::vector<KeySpec> keys;  // alphabetical; under the names of shape_meta, "action" among them
  double fps = 0.0;           // steps per second [Hz]
};

class DPB_API Dataset {
 public:
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset();

  virtual const DatasetSpec& spec() const = 0;

  /// One past the last step of each episode; strictly increasing. The last one is the number of
  /// steps.
  virtual std::span<const std::int64_t> episode_ends() const = 0;

  /// Copies steps [begin, end) of `spec().keys[key]` to `out`, (end - begin) * ByteSize() bytes in
  /// storage order. Safe from several threads at once. Throws Error{kData} on a range outside the
  /// data.
  virtual void Read(int key, std::int64_t begin, std::int64_t end,
                    std::span<std::byte> out) const = 0;

  /// Index of a key; throws Error{kData} naming the keys that exist.
  int KeyIndex(std::string_view name) const;

 protected:
  Dataset() = default;
};

}  // namespace dp_bench
