// What a .zarray (Zarr storage specification version 2) or a zarr.json (version 3) says about an
// array of numbers, including sharding (ZEP 2). And the names in diffusion_policy's layout of a
// replay buffer: data/<key> with the steps of all episodes, meta/episode_ends, and attributes at
// the root, as `dp_bench collect` writes them: in .zattrs, or in the zarr.json of version 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/zarr/element_type.h"
#include "data/zarr/store.h"
#include "dp_bench/array.h"

namespace dp_bench::zarr {

/// kZlib is also gzip; kImage is one image file per chunk, such as JPEG XL.
enum class Compressor { kNone, kZlib, kZstd, kBlosc, kImage };

/// Files that hold several chunks each, behind or before an index with offset and size of each.
struct ShardLayout {
  Shape shape;  // of a file, whole chunks in each direction
  bool is_index_first = false;
  bool is_index_big_endian = false;
  int n_index_checksums = 0;  // CRC-32C behind the index

  std::int64_t num_chunks = 1;  // of a file
  std::size_t index_bytes() const {
    return 16 * static_cast<std::size_t>(num_chunks) +
           4 * static_cast<std::size_t>(n_index_checksums);
  }
};

/// Checked: up to 8 axes, positive chunk sizes, sizes and products that fit, chunks below 2 GB.
struct ZarrMetadata {
  Shape shape;
  Shape chunks;  // of what is decoded as a whole
  ElementType type = ElementType::kFloat32;
  bool is_big_endian = false;
  Shape order;  // axis i of a stored chunk is axis order[i] of the array; empty: the same
  Compressor compressor = Compressor::kNone;
  int n_checksums = 0;  // CRC-32C behind the compressed bytes
  std::optional<ShardLayout> shards;
  std::string chunk_prefix;             // in front of the indices in the name of a file: "c/"
  char separator = '.';                 // between them
  std::optional<ElementBytes> fill;     // the value of everything that is not stored
  std::string unreadable;               // why dp_bench has no use for the array; nothing else then
  std::optional<std::string> key_type;  // the attribute kTypeAttribute
  std::vector<std::string> channels;    // the attribute kChannelsAttribute

  std::int64_t chunk_bytes = 0;  // decoded size of every chunk, including those at the edge
  std::int64_t num_chunks = 0;
  std::int64_t num_elements = 0;

  /// The sizes of a file: those of a shard, or of a chunk.
  const Shape& file_shape() const { return shards ? shards->shape : chunks; }
};

inline constexpr const char* kArrayFile = ".zarray";
inline constexpr const char* kNodeFile = "zarr.json";
inline constexpr std::uint64_t kMaxMetadataBytes = 256U << 10;

/// The attribute of an array with a list of names, one per number of a step.
inline constexpr const char* kChannelsAttribute = "dp_bench_channels";

/// The attribute of an array that says which type of key it is: "low_dim", "rgb" or "depth".
inline constexpr const char* kTypeAttribute = "dp_bench_type";

inline constexpr const char* kDataFolder = "data";
inline constexpr const char* kEpisodeEndsArray = "meta/episode_ends";

inline constexpr const char* kAttributesFile = ".zattrs";
inline constexpr const char* kFpsAttribute = "fps";
inline constexpr const char* kCompleteAttribute = "complete";
inline constexpr const char* kTasksAttribute = "tasks";        // a text per episode
inline constexpr const char* kEpisodesAttribute = "episodes";  // lists with a value per episode
inline constexpr std::uint64_t kMaxAttributeBytes = std::uint64_t{1}
                                                    << 30;  // of a million episodes

/// How chunks are written: c-blosc with this codec after a byte shuffle. Higher levels save a few
/// percent and take several times as long.
inline constexpr const char* kBloscCodec = "zstd";
inline constexpr int kBloscLevel = 1;
inline constexpr int kBloscByteShuffle = 1;

/// A .zarray; `file` names it in messages. An array that holds no numbers is `unreadable`; anything
/// else that is not understood throws Error{kData}.
ZarrMetadata ParseZarrMetadata(std::span<const std::byte> json, const std::string& file);

/// The same for a zarr.json of version 3; nothing if it is that of a group.
std::optional<ZarrMetadata> ParseZarrNode(std::span<const std::byte> json, const std::string& file);

/// Takes key_type and channels from the attributes of an array, which other programs may have made
/// anything.
void ReadKeyAttributes(const nlohmann::json& attributes, ZarrMetadata* metadata);

/// The .zarray of an array whose chunks `EncodeChunk` makes, as Python's zarr would write it.
std::string FormatZarrMetadata(const Shape& shape, const Shape& chunks, DType dtype);

/// The file of a chunk in the folder of its array, such as "3.0.0".
std::string ChunkFile(std::span<const std::int64_t> indices, char separator = '.');

struct ZarrAttributes {
  std::optional<double> fps;
  bool is_growing = false;  // "complete" is false: a collection is running or was interrupted
  std::vector<std::string> tasks;  // the texts in that list; other programs may mean another thing
};

/// Reads these attributes; none if there is no file. Other keys are ignored. Memory holds only the
/// text, of at most `max_bytes`, and the tasks. Throws Error{kData} if it is not a JSON object or a
/// value has another type.
ZarrAttributes ReadZarrAttributes(const Store& store, std::uint64_t max_bytes);

/// The same for the text of a .zattrs, or of a zarr.json; `file` is its name in messages.
ZarrAttributes ParseZarrAttributes(std::string_view text, const std::string& file,
                                   bool is_node = false);

}  // namespace dp_bench::zarr
