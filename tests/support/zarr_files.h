// Zarr hierarchies as other programs write them, with every compressor and chunks that cut every
// axis: written into memory, damaged there if needed, then written to a folder or a zip archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"

namespace dp_bench::zarr {

using Bytes = std::vector<std::byte>;

Bytes ToBytes(std::string_view text);

void WriteFile(const std::filesystem::path& file, const Bytes& bytes);

/// How an array is written: the "compressor" of its .zarray, and the function that compresses a
/// chunk (item size, decoded bytes).
struct Encoding {
  nlohmann::json json = nullptr;
  std::function<Bytes(std::size_t, std::span<const std::byte>)> encode;
};

Encoding Raw();
Encoding Zlib(int level = 5);
Encoding Zstd(bool with_content_size = true);

/// codec: blosclz, lz4, lz4hc, snappy, zlib or zstd; shuffle: 0 none, 1 bytes, 2 bits.
Encoding Blosc(const std::string& codec, int shuffle, int level = 5);

struct ArrayLayout {
  Shape shape;
  Shape chunks;
  Encoding encoding = Raw();
  char separator = '.';
  bool is_big_endian = false;
  Shape order = {};  // axis i of a stored chunk is axis order[i] of the array; empty: the same
  std::optional<double> left_out = std::nullopt;  // chunks that hold only this are not stored
  nlohmann::json fill_value = 0;
  // version 3 alone
  bool is_version_3 = false;
  bool has_checksums = false;  // of chunks and indices
  Shape shards = {};           // of a file; empty: a file per chunk
  bool is_index_first = false;
};

/// Files by name, such as "data/action/.zarray" and "data/action/0.0".
class ZarrFiles {
 public:
  Bytes& operator[](const std::string& name) { return files_[name]; }
  bool Contains(const std::string& name) const { return files_.contains(name); }
  void Erase(const std::string& name) { files_.erase(name); }

  /// Replaces every `from` in a text file by `to`; aborts if there is none.
  void Replace(const std::string& name, std::string_view from, std::string_view to);

  template <class T>
  void AddArray(const std::string& name, const ArrayLayout& layout, const std::vector<T>& values) {
    AddArray(name, layout, DTypeOf<T>::value, std::as_bytes(std::span(values)));
  }

  void WriteFolder(const std::filesystem::path& folder) const;
  void WriteZip(const std::filesystem::path& file, bool deflate = false) const;

 private:
  void AddArray(const std::string& name, const ArrayLayout& layout, DType dtype,
                std::span<const std::byte> values);
  void AddShards(const std::string& name, const ArrayLayout& layout,
                 const std::map<Shape, Bytes>& chunks);

  std::map<std::string, Bytes> files_;
};

/// 0, 1, 2, ... as T.
template <class T>
std::vector<T> Count(std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i);
  return values;
}

}  // namespace dp_bench::zarr
