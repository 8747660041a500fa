// One array of a zarr v2 hierarchy: checked when it is opened, then decoded as a whole by several
// threads, or chunk by chunk when it is read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/zarr/chunk_cache.h"
#include "data/zarr/conversion.h"
#include "data/zarr/metadata.h"
#include "data/zarr/store.h"

namespace dp_bench::zarr {

class ZarrArray {
 public:
  /// Reads <name>/.zarray and the header of every chunk, to check that all chunks exist and can
  /// decode to the size that the metadata give. `store` must outlive the array. Throws
  /// Error{kData}.
  ZarrArray(const Store& store, std::string name);

  const std::string& name() const { return name_; }
  const Shape& shape() const { return metadata_.shape; }
  DType dtype() const { return metadata_.dtype; }
  std::int64_t num_elements() const { return metadata_.num_elements; }
  std::int64_t num_steps() const { return metadata_.shape[0]; }

  /// The number of elements of one step; the first axis is time.
  std::int64_t step_elements() const;

  /// The decoded size of every chunk, including those at the edge.
  std::size_t chunk_bytes() const { return static_cast<std::size_t>(metadata_.chunk_bytes); }

  /// The most memory that a thread uses while it decodes a chunk: the chunk, its file and the
  /// decoder.
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  /// The name of the array in messages.
  std::string Describe() const { return store_.Describe(name_); }

  /// Throws Error{kData} unless the elements can be converted to `target`.
  void RequireConvertible(Target target) const;

  /// Decodes everything to `out`: num_elements() elements of TargetSize(target) bytes, in C order.
  /// Each thread uses scratch_bytes() of memory. Throws Error{kData}; if several chunks are faulty,
  /// the error is that of the first.
  void Load(Target target, int n_threads, std::span<std::byte> out) const;

  /// Like Load, but only for the steps [begin, end), at least one. Takes the chunks from `cache`,
  /// one at a time; a chunk must not exceed its limit. Also uses memory for one compressed chunk.
  /// May be called from several threads at once. Throws Error{kData} for faults in these steps and
  /// in their files.
  void ReadSteps(std::int64_t begin, std::int64_t end, Target target, ChunkCache* cache,
                 std::span<std::byte> out) const;

 private:
  struct Steps {
    std::int64_t begin;
    std::int64_t end;
  };

  std::string ChunkName(std::int64_t chunk) const;
  Shape ChunkIndices(std::int64_t chunk) const;
  void CheckChunks();
  void DecodeTo(std::int64_t chunk, std::vector<std::byte>* compressed,
                std::span<std::byte> decoded) const;
  void ScatterChunk(std::int64_t chunk, std::span<const std::byte> decoded, Target target,
                    const Steps& steps, std::span<std::byte> out) const;
  void ConvertRun(const std::byte* in, std::int64_t n, Target target, const Steps& steps,
                  std::int64_t position, std::span<std::byte> out) const;

  const Store& store_;
  std::string name_;
  ZarrMetadata metadata_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace dp_bench::zarr
