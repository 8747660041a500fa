// The innermost loops of product_kernels.h: a few rows times one or two panels of columns. Each has
// a version for every kind of processor, all with the same bits.
#pragma once

#include <array>
#include <cstdint>

namespace dp_bench::policy {

/// c [rows, width] = a panel, or added to c.
struct FloatTile {
  std::int64_t n_inner;
  const float* a;  // [rows, n_inner]
  std::int64_t a_stride;
  const float* panel;  // [n_inner, width]
  float* c;
  std::int64_t c_stride;
  bool accumulates;
};

/// Tiles of one panel width, the tallest first; the last tile has a single row.
struct FloatTiles {
  struct Kernel {
    std::int64_t n_rows;
    void (*run)(const FloatTile&);
  };
  std::int64_t width;
  std::array<Kernel, 4> kernels;
};

/// Copies a matrix of `n_rows` and `n_columns`.
void CopyRows(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
              std::int64_t n_rows, std::int64_t n_columns);

/// The narrowest panel of this machine that has room for all columns, or else the widest.
const FloatTiles& FloatTilesFor(std::int64_t n_columns);

inline constexpr std::int64_t kMaxFloatPanel = 32;

/// A block of products is 64 bytes of a row, which are 32 inner elements in bfloat16 and 64 in
/// int8, times 16 columns, and up to 32 rows.
inline constexpr std::int64_t kBf16Inner = 32;
inline constexpr std::int64_t kBf16Width = 16;
inline constexpr std::int64_t kBf16Rows = 16;
inline constexpr std::int64_t kInt8Inner = 64;

/// c [n_rows, n_panels * 16] = a times one or two panels of 16 columns. n_rows is 16 or 32.
///
/// Rows of a panel are groups of inner elements, two in bfloat16 and four in int8: those of a
/// column are neighbours. Group k of block i of the first panel begins at b + block_offsets[i] + k
/// * b_stride.
template <class Operand, class Sum>
struct BlockTile {
  std::int64_t n_blocks;  // of the inner dimension
  std::int64_t n_rows;
  std::int64_t n_panels;
  const Operand* a;  // [n_rows, n_blocks * elements of a block]
  std::int64_t a_stride;
  const Operand* b;
  const std::int64_t* block_offsets;  // [n_blocks]
  std::int64_t b_stride;
  std::int64_t panel_stride;  // from one panel to the next
  Sum* c;
  std::int64_t c_stride;
  bool accumulates = false;  // adds to c
};
using Bf16Tile = BlockTile<std::uint16_t, float>;

/// The kernel of one kind of processor, or null where this one cannot run it.
using Bf16Kernel = void (*)(const Bf16Tile&);
enum class Bf16Processor : std::uint8_t { kAmx, kAvx512, kAvx2, kAny, kAvx512Bf16 };
Bf16Kernel FindBf16Kernel(Bf16Processor processor);

/// The order of a sum: that of AMX, or any, which lets kAvx512Bf16 compute.
enum class Bf16Order : std::uint8_t { kAmx, kAny };

/// The fastest kernel of this machine, or that of `processor`, set up for the calling thread while
/// it exists.
class Bf16Kernels {
 public:
  explicit Bf16Kernels(Bf16Order order);
  explicit Bf16Kernels(Bf16Processor processor);
  Bf16Kernels(const Bf16Kernels&) = delete;
  Bf16Kernels& operator=(const Bf16Kernels&) = delete;
  ~Bf16Kernels();

  void Run(const Bf16Tile& tile) const { kernel_(tile); }

  /// For any n_rows: a has rows up to a multiple of 16, of which c has n_rows. c has `n_columns` of
  /// the panels' columns, or all if there are fewer.
  void RunRows(const Bf16Tile& tile, std::int64_t n_columns) const;

 private:
  Bf16Kernel kernel_;
  unsigned int float_mode_before_ = 0;
};

/// Numbers of 8 bits, unsigned but for those of weights, which are signed. Sums are exact, so all
/// processors give the same bits. Never accumulates.
using Int8Tile = BlockTile<std::uint8_t, std::int32_t>;
enum class Int8Weights : std::uint8_t { kInRows, kInPanels };  // a or b
using Int8Kernel = void (*)(const Int8Tile&);
enum class Int8Processor : std::uint8_t { kAmx, kAvx512Vnni, kAvx2, kAny };
Int8Kernel FindInt8Kernel(Int8Processor processor, Int8Weights weights);

/// As Bf16Kernels.
class Int8Kernels {
 public:
  explicit Int8Kernels(Int8Weights weights);
  Int8Kernels(Int8Processor processor, Int8Weights weights);
  Int8Kernels(const Int8Kernels&) = delete;
  Int8Kernels& operator=(const Int8Kernels&) = delete;
  ~Int8Kernels();

  void Run(const Int8Tile& tile) const { kernel_(tile); }

 private:
  Int8Kernel kernel_;
  bool uses_amx_;
};

/// to[i] = x[i] rounded to bfloat16, to nearest even. NaN stays NaN; denormal numbers may become 0,
/// as which they count anyway.
void RoundToBf16(const float* x, std::int64_t n, std::uint16_t* to);

/// to[2 i] and to[2 i + 1] = even[i] and odd[i], rounded in the same way.
void InterleaveBf16(const float* even, const float* odd, std::int64_t n, std::uint16_t* to);

}  // namespace dp_bench::policy
