#include "data/zarr/array.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "data/zarr/chunk_codec.h"
#include "data/zarr/page_buffer.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {
namespace {

// Calls body(thread, i) for i in [0, n), handing out indices in order. If bodies throw, the loop
// ends early and the exception of the smallest index is thrown, whatever the number of threads.
template <class Body>
void ParallelFor(std::int64_t n, int n_threads, const Body& body) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> has_failed{false};
  std::mutex mutex;
  std::int64_t failed_index = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr failure;

  const auto work = [&](int thread) {
    while (!has_failed) {
      const std::int64_t i = next++;
      if (i >= n) return;
      try {
        body(thread, i);
      } catch (...) {  // thread entry point: rethrown to the caller
        const std::lock_guard lock(mutex);
        has_failed = true;
        if (i < failed_index) {
          failed_index = i;
          failure = std::current_exception();
        }
      }
    }
  };

  {
    std::vector<std::jthread> threads;
    for (int thread = 1; thread < n_threads; ++thread) threads.emplace_back(work, thread);
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

ZarrMetadata ReadMetadata(const Store& store, const std::string& name) {
  RequireSafeName(name);
  const std::string file = fmt::format("{}/{}", name, kArrayFile);
  if (!store.Peek(file, {})) {
    throw Error(ErrorCode::kData,
                fmt::format("no array '{}': {} does not exist", name, store.Describe(file)));
  }
  std::vector<std::byte> json;
  store.Read(file, kMaxMetadataBytes, &json);
  return ParseZarrMetadata(json, store.Describe(file));
}

}  // namespace

ZarrArray::ZarrArray(const Store& store, std::string name)
    : store_(store), name_(std::move(name)), metadata_(ReadMetadata(store_, name_)) {
  CheckChunks();
}

std::int64_t ZarrArray::step_elements() const {
  return NumElements(std::span(metadata_.shape).subspan(1));
}

Shape ZarrArray::ChunkIndices(std::int64_t chunk) const {
  Shape indices(metadata_.shape.size());
  for (std::size_t axis = indices.size(); axis-- > 0;) {
    const std::int64_t n =
        (metadata_.shape[axis] + metadata_.chunks[axis] - 1) / metadata_.chunks[axis];
    indices[axis] = chunk % n;
    chunk /= n;
  }
  return indices;
}

std::string ZarrArray::ChunkName(std::int64_t chunk) const {
  return fmt::format("{}/{}", name_, ChunkFile(ChunkIndices(chunk), metadata_.separator));
}

// Stops at the first chunk that does not exist, so metadata that claim 2^60 chunks cost nothing.
void ZarrArray::CheckChunks() {
  std::array<std::byte, kChunkHeaderBytes> header = {};
  for (std::int64_t chunk = 0; chunk < metadata_.num_chunks; ++chunk) {
    const std::string file = ChunkName(chunk);
    const std::optional<std::uint64_t> size = store_.Peek(file, header);
    if (!size) {
      throw Error(
          ErrorCode::kData,
          fmt::format("chunk {} of {} of '{}' is missing: {} does not exist (shape {}, chunks "
                      "of {}); the copy is incomplete",
                      chunk, metadata_.num_chunks, name_, store_.Describe(file),
                      ToString(metadata_.shape), ToString(metadata_.chunks)));
    }
    const std::size_t n = std::min<std::uint64_t>(*size, header.size());
    CheckChunkHeader(metadata_.compressor, std::span(header).first(n), *size, metadata_.chunk_bytes,
                     store_.Describe(file));
    scratch_bytes_ = std::max(scratch_bytes_,
                              chunk_bytes() + *size + DecoderBytes(metadata_.compressor, header));
  }
}

void ZarrArray::RequireConvertible(Target target) const {
  if (CanConvert(metadata_.dtype, target)) return;
  const char* wanted = target == Target::kImage   ? "images are uint8 or float32"
                       : target == Target::kDepth ? "depth is uint16 [mm]"
                                                  : "episode ends are int64 or int32";
  throw Error(ErrorCode::kData,
              fmt::format("{} has dtype {}; {}", Describe(), Name(metadata_.dtype), wanted));
}

void ZarrArray::Load(Target target, int n_threads, std::span<std::byte> out) const {
  DPB_ASSERT(out.size() == static_cast<std::size_t>(metadata_.num_elements) * TargetSize(target));
  RequireConvertible(target);

  // memory of one thread, allocated at its first chunk
  struct Scratch {
    std::vector<std::byte> compressed;
    PageBuffer decoded;
  };
  n_threads = static_cast<int>(std::clamp<std::int64_t>(metadata_.num_chunks, 1, n_threads));
  std::vector<Scratch> scratch(static_cast<std::size_t>(n_threads));
  ParallelFor(metadata_.num_chunks, n_threads, [&](int thread, std::int64_t chunk) {
    Scratch& mine = scratch[static_cast<std::size_t>(thread)];
    if (mine.decoded.bytes().empty()) mine.decoded = PageBuffer(chunk_bytes());
    DecodeTo(chunk, &mine.compressed, mine.decoded.bytes());
    ScatterChunk(chunk, mine.decoded.bytes(), target, {0, num_steps()}, out);
  });
}

void ZarrArray::ReadSteps(std::int64_t begin, std::int64_t end, Target target, ChunkCache* cache,
                          std::span<std::byte> out) const {
  DPB_ASSERT(0 <= begin && begin < end && end <= num_steps());
  DPB_ASSERT(out.size() ==
             static_cast<std::size_t>((end - begin) * step_elements()) * TargetSize(target));
  // in C order, all chunks of the same steps are adjacent
  const std::int64_t chunk_steps = metadata_.chunks[0];
  const std::int64_t n_beside =
      metadata_.num_chunks / ((num_steps() + chunk_steps - 1) / chunk_steps);
  const std::int64_t first = begin / chunk_steps * n_beside;
  const std::int64_t last = ((end - 1) / chunk_steps + 1) * n_beside;
  std::vector<std::byte> compressed;
  for (std::int64_t chunk = first; chunk < last; ++chunk) {
    const auto decoded = cache->Get({this, chunk}, chunk_bytes(), [&](std::span<std::byte> memory) {
      DecodeTo(chunk, &compressed, memory);
    });
    ScatterChunk(chunk, decoded->bytes(), target, {begin, end}, out);
  }
}

void ZarrArray::DecodeTo(std::int64_t chunk, std::vector<std::byte>* compressed,
                         std::span<std::byte> decoded) const {
  const std::string file = ChunkName(chunk);
  store_.Read(file, MaxFileBytes(metadata_.chunk_bytes), compressed);
  DecodeChunk(metadata_.compressor, *compressed, decoded, store_.Describe(file));
}

// Copies the part of a decoded chunk that belongs to `steps` to its place, run by run. A run covers
// the innermost axes along which one chunk spans the whole array, and one axis more. Chunks at the
// edge extend beyond the array; that part is left out.
void ZarrArray::ScatterChunk(std::int64_t chunk, std::span<const std::byte> decoded, Target target,
                             const Steps& steps, std::span<std::byte> out) const {
  const Shape& shape = metadata_.shape;
  const Shape& chunks = metadata_.chunks;
  const std::size_t n_axes = shape.size();
  const Shape indices = ChunkIndices(chunk);

  std::size_t run_axis = n_axes - 1;
  while (run_axis > 0 && chunks[run_axis] == shape[run_axis]) --run_axis;
  std::int64_t inner = 1;
  for (std::size_t axis = run_axis + 1; axis < n_axes; ++axis) inner *= shape[axis];

  // per axis: the part that is copied, where it begins in the chunk, and where in `out`
  Shape extent(n_axes);
  Shape in_chunk_begin(n_axes, 0);
  Shape out_begin(n_axes);
  for (std::size_t axis = 0; axis < n_axes; ++axis) {
    out_begin[axis] = indices[axis] * chunks[axis];
    extent[axis] = std::min(chunks[axis], shape[axis] - out_begin[axis]);
  }
  in_chunk_begin[0] = std::max<std::int64_t>(0, steps.begin - out_begin[0]);
  extent[0] = std::min(extent[0], steps.end - out_begin[0]) - in_chunk_begin[0];
  out_begin[0] += in_chunk_begin[0] - steps.begin;

  const std::int64_t n_runs = NumElements(std::span(extent).first(run_axis));
  const std::size_t item = SizeOf(metadata_.dtype);
  for (std::int64_t run = 0; run < n_runs; ++run) {
    // where the run begins in the chunk and in `out`, outer axes from the inside out
    std::int64_t in_chunk = in_chunk_begin[run_axis] * inner;
    std::int64_t position = out_begin[run_axis] * inner;
    std::int64_t chunk_stride = chunks[run_axis] * inner;
    std::int64_t out_stride = shape[run_axis] * inner;
    std::int64_t rest = run;
    for (std::size_t axis = run_axis; axis-- > 0;) {
      const std::int64_t i = rest % extent[axis];
      rest /= extent[axis];
      in_chunk += (in_chunk_begin[axis] + i) * chunk_stride;
      position += (out_begin[axis] + i) * out_stride;
      chunk_stride *= chunks[axis];
      out_stride *= shape[axis];
    }
    ConvertRun(decoded.data() + static_cast<std::size_t>(in_chunk) * item, extent[run_axis] * inner,
               target, steps, position, out);
  }
}

void ZarrArray::ConvertRun(const std::byte* in, std::int64_t n, Target target, const Steps& steps,
                           std::int64_t position, std::span<std::byte> out) const {
  std::byte* to = out.data() + static_cast<std::size_t>(position) * TargetSize(target);
  const std::optional<std::int64_t> bad = Convert(metadata_.dtype, target, in, n, to);
  if (!bad) return;
  const std::byte* element = in + static_cast<std::size_t>(*bad) * SizeOf(metadata_.dtype);
  throw Error(ErrorCode::kData,
              fmt::format("{} holds {} at step {}; an image of type rgb holds integers 0 to 255",
                          Describe(), ElementText(metadata_.dtype, element),
                          steps.begin + (position + *bad) / step_elements()));
}

}  // namespace dp_bench::zarr
