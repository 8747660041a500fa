// See product_tiles.h.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "policy/kernels/amx_tiles.h"
#include "policy/kernels/product_tiles.h"
#include "policy/kernels/vector_math.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dp_bench::policy {
namespace {

// The two chains of a block in float32: a bfloat16 number is the upper half of a float32 one. See
// product_tiles.cc for the macro.
#define DPB_DEFINE_BF16_TILES(NAME, TARGET, BYTES, ROWS)                                      \
  struct NAME {                                                                               \
    static constexpr int kLanes = (BYTES) / 4;                                                \
    static constexpr int kVectors = kBf16Width / kLanes;                                      \
    using Floats = float __attribute__((vector_size(BYTES)));                                 \
    using Words = std::uint32_t __attribute__((vector_size(BYTES)));                          \
                                                                                              \
    __attribute__((TARGET)) static void RunRows(const Bf16Tile& tile, const std::uint16_t* a, \
                                                const std::uint16_t* b, float* c) {           \
      Floats sums[ROWS][kVectors] = {};                                                       \
      if (tile.accumulates) {                                                                 \
        _Pragma("GCC unroll 32") for (int i = 0; i < (ROWS)*kVectors; ++i) {                  \
          std::memcpy(&sums[i / kVectors][i % kVectors],                                      \
                      c + (i / kVectors) * tile.c_stride + (i % kVectors) * kLanes, BYTES);   \
        }                                                                                     \
      }                                                                                       \
      for (std::int64_t block = 0; block < tile.n_blocks; ++block, a += kBf16Inner) {         \
        Floats even[ROWS][kVectors] = {};                                                     \
        Floats odd[ROWS][kVectors] = {};                                                      \
        const std::uint16_t* of_b = b + tile.block_offsets[block];                            \
        for (std::int64_t k = 0; k < kBf16Inner; k += 2, of_b += tile.b_stride) {             \
          _Pragma("GCC unroll 4") for (int v = 0; v < kVectors; ++v) {                        \
            Words pairs;                                                                      \
            std::memcpy(&pairs, of_b + 2 * v * kLanes, BYTES);                                \
            const Floats b_even = reinterpret_cast<Floats>(pairs << 16U);                     \
            const Floats b_odd = reinterpret_cast<Floats>(pairs & 0xFFFF0000U);               \
            _Pragma("GCC unroll 8") for (int i = 0; i < (ROWS); ++i) {                        \
              std::uint32_t of_a;                                                             \
              std::memcpy(&of_a, a + i * tile.a_stride + k, sizeof(of_a));                    \
              even[i][v] += std::bit_cast<float>(of_a << 16U) * b_even;                       \
              odd[i][v] += std::bit_cast<float>(of_a & 0xFFFF0000U) * b_odd;                  \
            }                                                                                 \
          }                                                                                   \
        }                                                                                     \
        _Pragma("GCC unroll 32") for (int i = 0; i < (ROWS)*kVectors; ++i) {                  \
          sums[i / kVectors][i % kVectors] +=                                                 \
              even[i / kVectors][i % kVectors] + odd[i / kVectors][i % kVectors];             \
        }                                                                                     \
      }                                                                                       \
      _Pragma("GCC unroll 32") for (int i = 0; i < (ROWS)*kVectors; ++i) {                    \
        std::memcpy(c + (i / kVectors) * tile.c_stride + (i % kVectors) * kLanes,             \
                    &sums[i / kVectors][i % kVectors], BYTES);                                \
      }                                                                                       \
    }                                                                                         \
                                                                                              \
    static void Run(const Bf16Tile& tile) {                                                   \
      for (std::int64_t p = 0; p < tile.n_panels; ++p) {                                      \
        for (std::int64_t row = 0; row < tile.n_rows; row += (ROWS)) {                        \
          RunRows(tile, tile.a + row * tile.a_stride, tile.b + p * tile.panel_stride,         \
                  tile.c + row * tile.c_stride + p * kBf16Width);                             \
        }                                                                                     \
      }                                                                                       \
    }                                                                                         \
  }

DPB_DEFINE_BF16_TILES(Bf16OfAnyMachine, , 16, 1);

#if defined(__x86_64__)
DPB_DEFINE_BF16_TILES(Bf16OfAvx512, target("avx512f"), 64, 8);
DPB_DEFINE_BF16_TILES(Bf16OfAvx2, target("avx2,fma"), 32, 2);

#define DPB_AVX512_BF16 __attribute__((target("avx512f,avx512vl,avx512bw,avx512bf16")))

bool HasAvx512Bf16() {
  static const bool has = __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return has;
}

// VDPBF16PS adds the two products of a pair to the sum, in an order and rounding of its own.
template <int kPanels>
DPB_AVX512_BF16 void RunAvx512Bf16Rows(const Bf16Tile& tile, const std::uint16_t* a, float* c) {
  constexpr int kRows = 8;
  __m512 sums[kRows][kPanels] = {};
  if (tile.accumulates) {
    _Pragma("GCC unroll 8") for (int i = 0; i < kRows; ++i) {
      for (int p = 0; p < kPanels; ++p) {
        std::memcpy(&sums[i][p], c + i * tile.c_stride + p * kBf16Width, 64);
      }
    }
  }
  for (std::int64_t block = 0; block < tile.n_blocks; ++block, a += kBf16Inner) {
    const std::uint16_t* of_b = tile.b + tile.block_offsets[block];
    for (std::int64_t k = 0; k < kBf16Inner; k += 2, of_b += tile.b_stride) {
      __m512bh b[kPanels];
      for (int p = 0; p < kPanels; ++p) std::memcpy(&b[p], of_b + p * tile.panel_stride, 64);
      _Pragma("GCC unroll 8") for (int i = 0; i < kRows; ++i) {
        int pair;
        std::memcpy(&pair, a + i * tile.a_stride + k, sizeof(pair));
        const auto of_a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
        for (int p = 0; p < kPanels; ++p) {
          sums[i][p] = _mm512_dpbf16_ps(sums[i][p], of_a, b[p]);
        }
      }
    }
  }
  _Pragma("GCC unroll 8") for (int i = 0; i < kRows; ++i) {
    for (int p = 0; p < kPanels; ++p) {
      std::memcpy(c + i * tile.c_stride + p * kBf16Width, &sums[i][p], 64);
    }
  }
}

void RunAvx512Bf16(const Bf16Tile& tile) {
  const auto run = tile.n_panels > 1 ? RunAvx512Bf16Rows<2> : RunAvx512Bf16Rows<1>;
  for (std::int64_t row = 0; row < tile.n_rows; row += 8) {
    run(tile, tile.a + row * tile.a_stride, tile.c + row * tile.c_stride);
  }
}
#endif

DPB_ALWAYS_INLINE std::uint16_t Bf16Of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<std::uint16_t>(is_nan ? (bits >> 16U) | 0x40U : rounded);
}

}  // namespace

Bf16Kernel FindBf16Kernel(Bf16Processor processor) {
#if defined(__x86_64__)
  switch (processor) {
    case Bf16Processor::kAmx:
      return HasAmx() ? RunAmxBf16 : nullptr;
    case Bf16Processor::kAvx512:
      return __builtin_cpu_supports("avx512f") ? Bf16OfAvx512::Run : nullptr;
    case Bf16Processor::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Bf16OfAvx2::Run
                                                                             : nullptr;
    case Bf16Processor::kAvx512Bf16:
      return HasAvx512Bf16() ? RunAvx512Bf16 : nullptr;
    case Bf16Processor::kAny:
      break;
  }
  return Bf16OfAnyMachine::Run;
#else
  return processor == Bf16Processor::kAny ? Bf16OfAnyMachine::Run : nullptr;
#endif
}

namespace {

Bf16Processor FastestProcessor(Bf16Order order) {
  for (const Bf16Processor processor : {Bf16Processor::kAmx, Bf16Processor::kAvx512Bf16,
                                        Bf16Processor::kAvx512, Bf16Processor::kAvx2}) {
    if (processor == Bf16Processor::kAvx512Bf16 && order != Bf16Order::kAny) continue;
    if (FindBf16Kernel(processor) != nullptr) return processor;
  }
  return Bf16Processor::kAny;
}

}  // namespace

Bf16Kernels::Bf16Kernels(Bf16Order order) : Bf16Kernels(FastestProcessor(order)) {}

Bf16Kernels::Bf16Kernels(Bf16Processor processor) : kernel_(FindBf16Kernel(processor)) {
#if defined(__x86_64__)
  if (kernel_ == RunAmxBf16) LoadAmxTiles();
  // denormal numbers count as 0, as in AMX
  constexpr unsigned int kFlushToZeroAndDenormalsAreZero = 0x8040;
  float_mode_before_ = _mm_getcsr();
  _mm_setcsr(float_mode_before_ | kFlushToZeroAndDenormalsAreZero);
#endif
}

void Bf16Kernels::RunRows(const Bf16Tile& tile, std::int64_t n_columns) const {
  constexpr std::int64_t kStride = 2 * kBf16Width;
  alignas(64) std::array<float, 2 * kBf16Rows * kStride> sums;
  const std::int64_t width = std::min(n_columns, tile.n_panels * kBf16Width);
  for (std::int64_t row = 0; row < tile.n_rows; row += 2 * kBf16Rows) {
    const std::int64_t n = std::min(2 * kBf16Rows, tile.n_rows - row);
    Bf16Tile part = tile;
    part.n_rows = (n + kBf16Rows - 1) / kBf16Rows * kBf16Rows;
    part.a += row * tile.a_stride;
    part.c += row * tile.c_stride;
    if (n == part.n_rows && width == tile.n_panels * kBf16Width) {
      kernel_(part);
      continue;
    }
    float* const c = part.c;
    part.c = sums.data();
    part.c_stride = kStride;
    if (tile.accumulates) CopyRows(c, tile.c_stride, part.c, kStride, n, width);
    kernel_(part);
    CopyRows(part.c, kStride, c, tile.c_stride, n, width);
  }
}

Bf16Kernels::~Bf16Kernels() {
#if defined(__x86_64__)
  _mm_setcsr(float_mode_before_);
  if (kernel_ == RunAmxBf16) ReleaseAmxTiles();
#endif
}

namespace {

#if defined(__x86_64__)
using Halves = std::uint16_t __attribute__((vector_size(32)));
using Pairs = std::uint32_t __attribute__((vector_size(64)));
static_assert(sizeof(Pairs) == kBf16Width * sizeof(std::uint32_t));

// 16 numbers. The instruction rounds as Bf16Of does, and takes denormal numbers for 0.
DPB_AVX512_BF16 inline void Round16(const float* x, Halves* to) {
  __m512 numbers;
  std::memcpy(&numbers, x, sizeof(numbers));
  const __m256bh rounded = _mm512_cvtneps_pbh(numbers);
  std::memcpy(to, &rounded, sizeof(rounded));
}

DPB_AVX512_BF16 std::int64_t RoundWithAvx512(const float* x, std::int64_t n, std::uint16_t* to) {
  std::int64_t i = 0;
  for (; i + kBf16Width <= n; i += kBf16Width) {
    Halves rounded;
    Round16(x + i, &rounded);
    std::memcpy(to + i, &rounded, sizeof(rounded));
  }
  return i;
}

DPB_AVX512_BF16 std::int64_t InterleaveWithAvx512(const float* even, const float* odd,
                                                  std::int64_t n, std::uint16_t* to) {
  std::int64_t i = 0;
  for (; i + kBf16Width <= n; i += kBf16Width) {
    Halves low;
    Halves high;
    Round16(even + i, &low);
    Round16(odd + i, &high);
    const Pairs pairs =
        __builtin_convertvector(low, Pairs) | (__builtin_convertvector(high, Pairs) << 16U);
    std::memcpy(to + 2 * i, &pairs, sizeof(pairs));
  }
  return i;
}

#endif

DPB_VECTOR_VERSIONS void RoundOnAnyMachine(const float* x, std::int64_t n, std::uint16_t* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = Bf16Of(x[i]);
}

DPB_VECTOR_VERSIONS void InterleaveOnAnyMachine(const float* even, const float* odd, std::int64_t n,
                                                std::uint16_t* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t pair = Bf16Of(even[i]) | static_cast<std::uint32_t>(Bf16Of(odd[i])) << 16U;
    std::memcpy(to + 2 * i, &pair, sizeof(pair));
  }
}

}  // namespace

void RoundToBf16(const float* x, std::int64_t n, std::uint16_t* to) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  if (HasAvx512Bf16()) done = RoundWithAvx512(x, n, to);
#endif
  RoundOnAnyMachine(x + done, n - done, to + done);
}

void InterleaveBf16(const float* even, const float* odd, std::int64_t n, std::uint16_t* to) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  if (HasAvx512Bf16()) done = InterleaveWithAvx512(even, odd, n, to);
#endif
  InterleaveOnAnyMachine(even + done, odd + done, n - done, to + 2 * done);
}

}  // namespace dp_bench::policy
