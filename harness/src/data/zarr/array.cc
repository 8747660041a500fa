#include "data/zarr/array.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/errors.h"
#include "core/json.h"
#include "data/reader/chunk_grid.h"
#include "data/reader/whole_numbers.h"
#include "data/zarr/chunk_codec.h"

namespace dp_bench::zarr {
namespace {

ZarrMetadata ReadMetadata(const Store& store, const std::string& name) {
  RequireSafeName(name);
  std::optional<ZarrMetadata> metadata = FindZarrArray(store, name);
  if (!metadata) {
    throw DataError("no array '{}': {} does not exist", name,
                    store.Describe(name + "/" + kArrayFile));
  }
  if (!metadata->unreadable.empty()) {
    throw DataError("{}: {}", store.Describe(name), metadata->unreadable);
  }
  return *std::move(metadata);
}

// The position of item `i` of a grid that cuts `shape` into boxes of `size`, in C order.
Shape GridPosition(std::int64_t i, const Shape& shape, const Shape& size) {
  Shape position(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const std::int64_t n = (shape[axis] + size[axis] - 1) / size[axis];
    position[axis] = i % n;
    i /= n;
  }
  return position;
}

std::uint64_t ReadIndexNumber(const std::byte* bytes, bool is_big_endian) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes, sizeof(number));
  return is_big_endian ? __builtin_bswap64(number) : number;
}

// Copies a chunk whose axis i is axis order[i] of `chunks`, in C order of `chunks`.
void Transpose(std::span<const std::byte> in, const Shape& chunks, const Shape& order,
               std::size_t item, std::span<std::byte> out) {
  const std::size_t n_axes = chunks.size();
  Shape strides(n_axes, 1);  // of the axes of `chunks`
  for (std::size_t axis = n_axes - 1; axis-- > 0;) {
    strides[axis] = strides[axis + 1] * chunks[axis + 1];
  }
  Shape position(n_axes, 0);  // in the stored chunk
  std::int64_t to = 0;
  for (std::size_t from = 0; from < in.size(); from += item) {
    std::memcpy(out.data() + static_cast<std::size_t>(to) * item, in.data() + from, item);
    for (std::size_t axis = n_axes; axis-- > 0;) {
      const auto own = static_cast<std::size_t>(order[axis]);
      to += strides[own];
      if (++position[axis] < chunks[own]) break;
      to -= strides[own] * chunks[own];
      position[axis] = 0;
    }
  }
}

void ReverseBytes(std::span<std::byte> elements, std::size_t item) {
  for (std::size_t i = 0; i < elements.size(); i += item) {
    std::ranges::reverse(elements.subspan(i, item));
  }
}

}  // namespace

std::optional<ZarrMetadata> FindZarrArray(const Store& store, const std::string& name) {
  std::vector<std::byte> json;
  const std::string file = fmt::format("{}/{}", name, kArrayFile);
  if (!store.Peek(file, {})) {
    const std::string node = fmt::format("{}/{}", name, kNodeFile);
    if (!store.Peek(node, {})) return std::nullopt;
    store.Read(node, kMaxMetadataBytes, &json);
    return ParseZarrNode(json, store.Describe(node));
  }
  store.Read(file, kMaxMetadataBytes, &json);
  ZarrMetadata metadata = ParseZarrMetadata(json, store.Describe(file));
  // attributes of other programs may be anything, also NaN, which JSON does not have
  const std::string attributes = fmt::format("{}/{}", name, kAttributesFile);
  if (store.Peek(attributes, {}).value_or(kMaxMetadataBytes) < kMaxMetadataBytes) {
    store.Read(attributes, kMaxMetadataBytes, &json);
    const nlohmann::json values =
        core::TryParseJson({reinterpret_cast<const char*>(json.data()), json.size()});
    ReadKeyAttributes(values, &metadata);
  }
  return metadata;
}

ZarrArray::ZarrArray(const Store& store, std::string name)
    : store_(store), name_(std::move(name)), metadata_(ReadMetadata(store_, name_)) {
  FindChunks();
}

std::int64_t ZarrArray::step_elements() const {
  return NumElements(std::span(metadata_.shape).subspan(1));
}

Shape ZarrArray::ChunkIndices(std::int64_t chunk) const {
  return GridPosition(chunk, metadata_.shape, metadata_.chunks);
}

std::string ZarrArray::FileName(std::span<const std::int64_t> indices) const {
  return fmt::format("{}/{}{}", name_, metadata_.chunk_prefix,
                     ChunkFile(indices, metadata_.separator));
}

std::string ZarrArray::FileOf(std::int64_t chunk) const {
  Shape indices = ChunkIndices(chunk);
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    indices[axis] /= metadata_.file_shape()[axis] / metadata_.chunks[axis];
  }
  return FileName(indices);
}

// An incomplete copy looks like an array whose other chunks hold the fill value. Without a fill
// value it can only be incomplete. Each look-up costs time, and metadata may claim 2^60 chunks.
void ZarrArray::FindChunks() {
  constexpr std::int64_t kMaxAbsentFiles = 1 << 18;  // and more where as many exist
  const Shape& file_shape = metadata_.file_shape();
  std::int64_t n_files = 1;
  for (std::size_t axis = 0; axis < file_shape.size(); ++axis) {
    n_files *= (metadata_.shape[axis] + file_shape[axis] - 1) / file_shape[axis];
  }
  std::int64_t n_absent = 0;
  std::array<std::byte, kChunkHeaderBytes> header = {};
  for (std::int64_t i = 0; i < n_files; ++i) {
    const Shape indices = GridPosition(i, metadata_.shape, file_shape);
    const std::string file = FileName(indices);
    const std::optional<std::uint64_t> size = store_.Peek(file, header);
    if (!size) {
      if (!metadata_.fill) ThrowMissing(file, "there is no fill_value for it");
      const std::int64_t n_found = i - n_absent;
      if (n_absent == kMaxAbsentFiles + 4 * n_found) {
        ThrowMissing(file, fmt::format("as are {} before it", n_absent));
      }
      ++n_absent;
    } else if (metadata_.shards) {
      AddShard(indices, *size);
    } else {
      AddChunk({i, 0, *size}, std::span(header).first(std::min(*size, header.size())));
    }
  }
  if (!metadata_.shards) return;
  std::ranges::sort(stored_, {}, &StoredChunk::chunk);
  if (num_missing() > 0 && !metadata_.fill) {
    ThrowMissing(FileName(Shape(metadata_.shape.size(), 0)), "and there is no fill_value");
  }
}

void ZarrArray::ThrowMissing(const std::string& file, std::string_view reason) const {
  throw DataError(
      "a chunk of '{}' is missing: {} does not exist, {} (shape {}, {} chunks of {}); the copy is "
      "incomplete",
      name_, store_.Describe(file), reason, ToString(metadata_.shape), metadata_.num_chunks,
      ToString(metadata_.chunks));
}

void ZarrArray::AddChunk(const StoredChunk& stored, std::span<const std::byte> header) {
  const auto n_checksum_bytes = static_cast<std::uint64_t>(4 * metadata_.n_checksums);
  const std::string file = store_.Describe(FileOf(stored.chunk));
  if (stored.size < n_checksum_bytes) {
    throw DataError("{}: has {} bytes, less than its checksums", file, stored.size);
  }
  CheckChunkHeader(metadata_.compressor, header, stored.size - n_checksum_bytes,
                   metadata_.chunk_bytes, file);
  const std::size_t transposed = metadata_.order.empty() ? 0 : chunk_bytes();
  scratch_bytes_ = std::max(scratch_bytes_,
                            chunk_bytes() + transposed + stored.size +
                                DecoderBytes(metadata_.compressor, header, metadata_.chunk_bytes));
  stored_.push_back(stored);
}

// The headers of its chunks are checked when they are decoded; opening reads only the index.
void ZarrArray::AddShard(const Shape& indices, std::uint64_t size) {
  constexpr std::size_t kMaxIndexBytes = std::size_t{256} << 20;  // of all shards
  const ShardLayout& shards = *metadata_.shards;
  const std::string file = FileName(indices);
  const auto refuse = [&](const std::string& what) {
    throw DataError("{}: {}", store_.Describe(file), what);
  };
  if (shards.index_bytes() > size) {
    refuse(fmt::format("has {} bytes; the index of {} chunks alone has {}", size, shards.num_chunks,
                       shards.index_bytes()));
  }
  index_bytes_ += shards.index_bytes();
  if (index_bytes_ > kMaxIndexBytes) {
    refuse(fmt::format("the indices of its array take more than {} bytes", kMaxIndexBytes));
  }
  std::vector<std::byte> index(shards.index_bytes());
  store_.ReadPart(file, shards.is_index_first ? 0 : size - index.size(), index);
  TakeChecksums(index, shards.n_index_checksums, store_.Describe(file));

  const std::size_t transposed = metadata_.order.empty() ? 0 : chunk_bytes();
  const std::size_t decoder = DecoderBytes(metadata_.compressor, {}, metadata_.chunk_bytes);
  constexpr std::uint64_t kAbsent = std::numeric_limits<std::uint64_t>::max();
  for (std::int64_t i = 0; i < shards.num_chunks; ++i) {
    const std::byte* entry = index.data() + 16 * i;
    const StoredChunk stored{.chunk = 0,
                             .offset = ReadIndexNumber(entry, shards.is_index_big_endian),
                             .size = ReadIndexNumber(entry + 8, shards.is_index_big_endian)};
    if (stored.offset == kAbsent && stored.size == kAbsent) continue;
    if (stored.offset > size || stored.size > size - stored.offset ||
        stored.size > MaxFileBytes(metadata_.chunk_bytes)) {
      refuse(fmt::format("the index says that chunk {} has {} bytes at {}; the file has {}", i,
                         stored.size, stored.offset, size));
    }
    const std::optional<std::int64_t> chunk = ChunkInShard(indices, i);
    if (!chunk) continue;  // beyond the edge of the array
    stored_.push_back({*chunk, stored.offset, stored.size});
    scratch_bytes_ = std::max(scratch_bytes_, chunk_bytes() + transposed + stored.size + decoder);
  }
}

// The number in the array of chunk `i` of the shard at `indices`; nothing if it is outside.
std::optional<std::int64_t> ZarrArray::ChunkInShard(const Shape& indices, std::int64_t i) const {
  const Shape& shard = metadata_.shards->shape;
  const Shape inside = GridPosition(i, shard, metadata_.chunks);
  std::int64_t chunk = 0;
  for (std::size_t axis = 0; axis < inside.size(); ++axis) {
    const std::int64_t size = metadata_.chunks[axis];
    const std::int64_t n = (metadata_.shape[axis] + size - 1) / size;
    const std::int64_t position = indices[axis] * (shard[axis] / size) + inside[axis];
    if (position >= n) return std::nullopt;
    chunk = chunk * n + position;
  }
  return chunk;
}

void ZarrArray::RequireConvertible(DType target) const {
  if (CanConvert(metadata_.type, target)) return;
  const char* wanted = target == DType::kUInt8    ? "images are uint8 or float32"
                       : target == DType::kUInt16 ? "depth is uint16 [mm]"
                                                  : "episode ends are integers";
  throw DataError("{} has dtype {}; {}", Describe(), Name(metadata_.type), wanted);
}

bool ZarrArray::FirstChunkFits(DType target) const {
  if (!CanConvert(metadata_.type, target)) return false;
  alignas(8) const ElementBytes fill = metadata_.fill.value_or(ElementBytes{});
  if (stored_.empty()) {
    alignas(8) ElementBytes element;
    return !Convert(metadata_.type, target, fill.data(), 1, element.data());
  }
  std::vector<std::byte> compressed;
  reader::PageBuffer decoded(chunk_bytes());
  DecodeTo(stored_.front(), &compressed, decoded.bytes());
  constexpr std::int64_t kBlock = 4096;  // elements; their converted form stays in the cache
  alignas(8) std::array<std::byte, kBlock * sizeof(std::int64_t)> converted;
  const std::size_t item = SizeOf(metadata_.type);
  const auto n = static_cast<std::int64_t>(chunk_bytes() / item);
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::byte* block = decoded.bytes().data() + static_cast<std::size_t>(begin) * item;
    if (Convert(metadata_.type, target, block, std::min(kBlock, n - begin), converted.data())) {
      return false;
    }
  }
  return true;
}

void ZarrArray::Load(DType target, int n_threads, std::span<std::byte> out) const {
  DPB_ASSERT(out.size() == static_cast<std::size_t>(metadata_.num_elements) * SizeOf(target));
  RequireConvertible(target);

  if (num_missing() > 0) Fill(target, out);

  // threads take the chunks in order; after a failure no further chunk begins
  const std::int64_t n = std::ssize(stored_);
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::int64_t first_failed = n;
  std::exception_ptr failure;
  const auto work = [&] {
    std::vector<std::byte> compressed;
    reader::PageBuffer decoded;
    for (std::int64_t i = next++; i < n; i = next++) {
      const StoredChunk& stored = stored_[static_cast<std::size_t>(i)];
      try {
        if (decoded.bytes().empty()) decoded = reader::PageBuffer(chunk_bytes());
        DecodeTo(stored, &compressed, decoded.bytes());
        ScatterChunk(stored.chunk, decoded.bytes(), target, {0, num_steps()}, out);
      } catch (...) {  // thread entry point: rethrown to the caller
        next = n;
        const std::lock_guard lock(mutex);
        if (i > first_failed) continue;
        first_failed = i;
        failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < std::min<std::int64_t>(n, n_threads); ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

void ZarrArray::ReadSteps(std::int64_t begin, std::int64_t end, DType target,
                          reader::ChunkCache* cache, std::span<std::byte> out) const {
  DPB_ASSERT(0 <= begin && begin < end && end <= num_steps());
  DPB_ASSERT(out.size() ==
             static_cast<std::size_t>((end - begin) * step_elements()) * SizeOf(target));
  // in C order, all chunks of the same steps are adjacent
  const std::int64_t chunk_steps = metadata_.chunks[0];
  const std::int64_t n_beside =
      metadata_.num_chunks / ((num_steps() + chunk_steps - 1) / chunk_steps);
  const std::int64_t first = begin / chunk_steps * n_beside;
  const std::int64_t last = ((end - 1) / chunk_steps + 1) * n_beside;
  const auto from = std::ranges::lower_bound(stored_, first, {}, &StoredChunk::chunk);
  const auto to = std::ranges::lower_bound(from, stored_.end(), last, {}, &StoredChunk::chunk);
  if (to - from < last - first) Fill(target, out);
  std::vector<std::byte> compressed;
  for (const StoredChunk& stored : std::span(from, to)) {
    const auto decoded =
        cache->Get({this, stored.chunk}, chunk_bytes(),
                   [&](std::span<std::byte> memory) { DecodeTo(stored, &compressed, memory); });
    ScatterChunk(stored.chunk, decoded->bytes(), target, {begin, end}, out);
  }
}

// Every element of `out` becomes the fill value.
void ZarrArray::Fill(DType target, std::span<std::byte> out) const {
  alignas(8) const ElementBytes fill = *metadata_.fill;
  alignas(8) ElementBytes element = {};
  if (Convert(metadata_.type, target, fill.data(), 1, element.data())) {
    const std::string found = ElementText(metadata_.type, fill.data());
    if (target == DType::kFloat32) {
      reader::RefuseInexact(fmt::format("{}, fill_value for chunks that do not exist", Describe()),
                            found);
    }
    throw DataError(
        "{} has fill_value {} for chunks that do not exist; an image of type rgb holds integers 0 "
        "to 255",
        Describe(), found);
  }
  const auto value = std::span(element).first(SizeOf(target));
  if (std::ranges::all_of(value, [&](std::byte byte) { return byte == value[0]; })) {
    std::ranges::fill(out, value[0]);
    return;
  }
  for (std::size_t i = 0; i < out.size(); i += value.size()) {
    std::ranges::copy(value, out.subspan(i).begin());
  }
}

void ZarrArray::DecodeTo(const StoredChunk& stored, std::vector<std::byte>* compressed,
                         std::span<std::byte> decoded) const {
  const std::string file = FileOf(stored.chunk);
  const std::string where = store_.Describe(file);
  if (metadata_.shards) {
    compressed->resize(stored.size);
    store_.ReadPart(file, stored.offset, *compressed);
  } else {
    store_.Read(file, MaxFileBytes(metadata_.chunk_bytes), compressed);
  }
  const auto bytes = TakeChecksums(*compressed, metadata_.n_checksums, where);
  const std::size_t item = SizeOf(metadata_.type);
  if (metadata_.compressor == Compressor::kImage) {
    DecodeImage(bytes, metadata_.chunks, decoded, where);
  } else if (metadata_.order.empty()) {
    DecodeChunk(metadata_.compressor, bytes, decoded, where);
  } else {
    reader::PageBuffer in_order(decoded.size());
    DecodeChunk(metadata_.compressor, bytes, in_order.bytes(), where);
    Transpose(in_order.bytes(), metadata_.chunks, metadata_.order, item, decoded);
  }
  if (metadata_.is_big_endian) ReverseBytes(decoded, item);
}

// Copies the part of a decoded chunk that belongs to `steps` to its place.
void ZarrArray::ScatterChunk(std::int64_t chunk, std::span<const std::byte> decoded, DType target,
                             const Steps& steps, std::span<std::byte> out) const {
  Shape first = ChunkIndices(chunk);
  for (std::size_t axis = 0; axis < first.size(); ++axis) first[axis] *= metadata_.chunks[axis];
  const std::size_t item = SizeOf(metadata_.type);
  reader::ForEachRun(
      metadata_.shape, metadata_.chunks, first, steps.begin, steps.end,
      [&](const reader::ChunkRun& run) {
        const std::byte* in = decoded.data() + static_cast<std::size_t>(run.from) * item;
        std::byte* to = out.data() + static_cast<std::size_t>(run.to) * SizeOf(target);
        const std::optional<std::int64_t> bad = Convert(metadata_.type, target, in, run.n, to);
        if (!bad) return;
        const auto found = ElementText(metadata_.type, in + static_cast<std::size_t>(*bad) * item);
        const std::int64_t step = steps.begin + (run.to + *bad) / step_elements();
        if (target == DType::kFloat32) {
          reader::RefuseInexact(fmt::format("{}, step {}", Describe(), step), found);
        }
        throw DataError(
            "{} holds {} at step {}; an image of type rgb holds integers 0 to 255. For other "
            "numbers, give its key the type low_dim (dataset.params.keys).",
            Describe(), found, step);
      });
}

}  // namespace dp_bench::zarr
