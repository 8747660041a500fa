// Arrays that are stored in chunks of equal size, as in zarr and HDF5. Chunks at the edge extend
// beyond the array.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dp_bench::reader {

inline constexpr std::size_t kMaxAxes = 8;

/// A part of a chunk whose elements follow one another both there and in the array.
struct ChunkRun {
  std::int64_t from = 0;  // element of the chunk
  std::int64_t to = 0;    // element of rows [begin, end) of the array
  std::int64_t n = 0;     // elements
};

/// Calls use(ChunkRun) for all runs of the chunk at `first`, its first element in the array, that
/// are in rows [begin, end). `shape` and `chunk` are the sizes, in C order.
template <class Use>
void ForEachRun(std::span<const std::int64_t> shape, std::span<const std::int64_t> chunk,
                std::span<const std::int64_t> first, std::int64_t begin, std::int64_t end,
                const Use& use) {
  const std::size_t n_axes = shape.size();
  std::array<std::int64_t, kMaxAxes> count = {};  // per axis: what is copied
  std::array<std::int64_t, kMaxAxes> from_stride = {};
  std::array<std::int64_t, kMaxAxes> to_stride = {};
  ChunkRun run{.n = 1};
  std::size_t run_axis = n_axes;  // the axes from here on are one run
  std::int64_t from_size = 1;
  std::int64_t to_size = 1;
  bool is_run = true;
  for (std::size_t axis = n_axes; axis-- > 0;) {
    const std::int64_t low = axis == 0 ? std::max(begin, first[0]) : first[axis];
    const std::int64_t high = std::min(axis == 0 ? end : shape[axis], first[axis] + chunk[axis]);
    count[axis] = high - low;
    from_stride[axis] = from_size;
    to_stride[axis] = to_size;
    run.from += (low - first[axis]) * from_size;
    run.to += (axis == 0 ? low - begin : low) * to_size;
    if (is_run) {
      run.n *= count[axis];
      run_axis = axis;
    }
    is_run = is_run && count[axis] == shape[axis] && chunk[axis] == shape[axis];
    from_size *= chunk[axis];
    to_size *= shape[axis];
  }
  std::array<std::int64_t, kMaxAxes> at = {};
  while (true) {
    use(run);
    std::size_t axis = run_axis;
    for (; axis-- > 0;) {  // the next position of the outer axes
      run.from += from_stride[axis];
      run.to += to_stride[axis];
      if (++at[axis] < count[axis]) break;
      run.from -= count[axis] * from_stride[axis];
      run.to -= count[axis] * to_stride[axis];
      at[axis] = 0;
    }
    if (axis == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace dp_bench::reader
