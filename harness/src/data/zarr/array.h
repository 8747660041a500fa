// One array of a zarr v2 hierarchy: checked when it is opened, then decoded as a whole by several
// threads, or chunk by chunk where it is read.
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
  /// Reads <name>/.zarray and the header of every chunk: all chunks exist and can decode to the
  /// size the metadata promise, which must fit this machine's memory. `store` must outlive the
  /// array. Throws Error{kData}.
  ZarrArray(const Store& store, std::string name);

  const std::string& name() const { return name_; }
  const Shape& shape() const { return metadata_.shape; }
  DType dtype() const { return metadata_.dtype; }
  std::int64_t num_elements() const { return metadata_.num_elements; }
  std::int64_t num_steps() const { return metadata_.shape[0]; }

  /// Elements of one step, the first axis being time.
  std::int64_t step_elements() const;

  /// Decoded size of every chunk, those at the edge included.
  std::size_t chunk_bytes() const { return static_cast<std::size_t>(metadata_.chunk_bytes); }

  /// Most that a thread takes while it decodes a chunk: the chunk, its file and the decoder.
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  /// How messages call the array.
  std::string Describe() const { return store_.Describe(name_); }

  /// Throws Error{kData} unless the elements can become `target`.
  void RequireConvertible(Target target) const;

  /// Decodes everything to `out`, num_elements() of TargetSize(target) bytes in C order. Each
  /// thread takes scratch_bytes(). Throws Error{kData}; of several faults, that of the first
  /// chunk.
  void Load(Target target, int n_threads, std::span<std::byte> out) const;

  /// As Load, of the steps [begin, end) alone, at least one. Chunks come from `cache`, one at a
  /// time, of at most its limit; besides them it takes memory for one compressed chunk. Safe from
  /// several threads at once. Throws Error{kData} for faults of these steps and of the files they
  /// are in.
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
