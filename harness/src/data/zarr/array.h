// One array of a zarr hierarchy of version 2 or 3: checked when it is opened, then decoded as a
// whole by several threads, or chunk by chunk when it is read.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/reader/chunk_cache.h"
#include "data/zarr/element_type.h"
#include "data/zarr/metadata.h"
#include "data/zarr/store.h"

namespace dp_bench::zarr {

/// What the .zarray or zarr.json of an array says, with the type of its attributes; nothing if
/// there is no array of this name, but perhaps a group. Throws Error{kData}.
std::optional<ZarrMetadata> FindZarrArray(const Store& store, const std::string& name);

class ZarrArray {
 public:
  /// Reads the metadata and the header of every chunk, or the index of every shard, to check that
  /// all chunks can decode to the size that the metadata give. Chunks that do not exist hold the
  /// fill value; if there is none, they are an error. `store` must outlive the array. Throws
  /// Error{kData}.
  ZarrArray(const Store& store, std::string name);

  const std::string& name() const { return name_; }
  const Shape& shape() const { return metadata_.shape; }
  ElementType type() const { return metadata_.type; }
  const std::optional<std::string>& key_type() const { return metadata_.key_type; }
  const std::vector<std::string>& channels() const { return metadata_.channels; }
  std::int64_t num_elements() const { return metadata_.num_elements; }
  std::int64_t num_steps() const { return metadata_.shape[0]; }

  /// The number of elements of one step; the first axis is time.
  std::int64_t step_elements() const;

  /// The decoded size of every chunk, including those at the edge.
  std::size_t chunk_bytes() const { return static_cast<std::size_t>(metadata_.chunk_bytes); }

  /// Chunks in all, and those that do not exist.
  std::int64_t num_chunks() const { return metadata_.num_chunks; }
  std::int64_t num_missing() const { return num_chunks() - std::ssize(stored_); }

  /// The most memory that a thread uses while it decodes a chunk: the chunk, its file and the
  /// decoder.
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  /// The name of the array in messages.
  std::string Describe() const { return store_.Describe(name_); }

  /// Throws Error{kData} unless the elements can be converted to `target`.
  void RequireConvertible(DType target) const;

  /// Whether the first chunk that exists, or else the fill value, holds only what `target` can.
  /// Takes memory for one decoded chunk and scratch_bytes().
  bool FirstChunkFits(DType target) const;

  /// Decodes everything to `out`: num_elements() elements of SizeOf(target) bytes, in C order.
  /// Each thread uses scratch_bytes() of memory. Throws Error{kData}; if several chunks are faulty,
  /// the error is that of the first.
  void Load(DType target, int n_threads, std::span<std::byte> out) const;

  /// Like Load, but only for the steps [begin, end), at least one. Takes the chunks from `cache`,
  /// one at a time; a chunk must not exceed its limit. Also uses memory for one compressed chunk.
  /// May be called from several threads at once. Throws Error{kData} for faults in these steps and
  /// in their files.
  void ReadSteps(std::int64_t begin, std::int64_t end, DType target, reader::ChunkCache* cache,
                 std::span<std::byte> out) const;

 private:
  struct Steps {
    std::int64_t begin;
    std::int64_t end;
  };

  // Where a chunk is in its file.
  struct StoredChunk {
    std::int64_t chunk;
    std::uint64_t offset;
    std::uint64_t size;
  };

  std::string FileName(std::span<const std::int64_t> indices) const;
  std::string FileOf(std::int64_t chunk) const;
  Shape ChunkIndices(std::int64_t chunk) const;
  void FindChunks();
  void AddShard(const Shape& indices, std::uint64_t size);
  std::optional<std::int64_t> ChunkInShard(const Shape& indices, std::int64_t i) const;
  void AddChunk(const StoredChunk& stored, std::span<const std::byte> header);
  [[noreturn]] void ThrowMissing(const std::string& file, std::string_view reason) const;
  void Fill(DType target, std::span<std::byte> out) const;
  void DecodeTo(const StoredChunk& stored, std::vector<std::byte>* compressed,
                std::span<std::byte> decoded) const;
  void ScatterChunk(std::int64_t chunk, std::span<const std::byte> decoded, DType target,
                    const Steps& steps, std::span<std::byte> out) const;

  const Store& store_;
  std::string name_;
  ZarrMetadata metadata_;
  std::vector<StoredChunk> stored_;  // sorted by chunk
  std::size_t scratch_bytes_ = 0;
  std::size_t index_bytes_ = 0;  // of the shards
};

}  // namespace dp_bench::zarr
