// See product_tiles.h.
#include <cstring>
#include <type_traits>

#include "policy/kernels/amx_tiles.h"
#include "policy/kernels/product_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kGroup = 4;  // inner elements that are multiplied at once

template <Int8Weights kWeights>
void RunOnAnyMachine(const Int8Tile& tile) {
  using OfA = std::conditional_t<kWeights == Int8Weights::kInRows, std::int8_t, std::uint8_t>;
  using OfB = std::conditional_t<kWeights == Int8Weights::kInRows, std::uint8_t, std::int8_t>;
  for (std::int64_t row = 0; row < tile.n_rows; ++row) {
    for (std::int64_t column = 0; column < tile.n_panels * kBf16Width; ++column) {
      const std::int64_t panel = column / kBf16Width * tile.panel_stride;
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < tile.n_blocks * kInt8Inner; ++k) {
        const std::int64_t group = k % kInt8Inner / kGroup;
        const std::uint8_t a = tile.a[row * tile.a_stride + k];
        const std::uint8_t b =
            tile.b[panel + tile.block_offsets[k / kInt8Inner] + group * tile.b_stride +
                   column % kBf16Width * kGroup + k % kGroup];
        sum += static_cast<OfA>(a) * static_cast<OfB>(b);
      }
      tile.c[row * tile.c_stride + column] = sum;
    }
  }
}

#if defined(__x86_64__)
#define DPB_AVX512_VNNI __attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni")))

template <Int8Weights kWeights, int kPanels>
DPB_AVX512_VNNI void RunAvx512VnniRows(const Int8Tile& tile, const std::uint8_t* a,
                                       std::int32_t* c) {
  constexpr int kRows = 8;
  __m512i sums[kRows][kPanels] = {};
  for (std::int64_t block = 0; block < tile.n_blocks; ++block, a += kInt8Inner) {
    const std::uint8_t* of_b = tile.b + tile.block_offsets[block];
    for (std::int64_t k = 0; k < kInt8Inner; k += kGroup, of_b += tile.b_stride) {
      __m512i b[kPanels];
      for (int p = 0; p < kPanels; ++p) b[p] = _mm512_loadu_si512(of_b + p * tile.panel_stride);
      _Pragma("GCC unroll 8") for (int i = 0; i < kRows; ++i) {
        int group;
        std::memcpy(&group, a + i * tile.a_stride + k, sizeof(group));
        const __m512i of_a = _mm512_set1_epi32(group);
        for (int p = 0; p < kPanels; ++p) {
          sums[i][p] = kWeights == Int8Weights::kInRows
                           ? _mm512_dpbusd_epi32(sums[i][p], b[p], of_a)
                           : _mm512_dpbusd_epi32(sums[i][p], of_a, b[p]);
        }
      }
    }
  }
  _Pragma("GCC unroll 8") for (int i = 0; i < kRows; ++i) {
    for (int p = 0; p < kPanels; ++p) {
      _mm512_storeu_si512(c + i * tile.c_stride + p * kBf16Width, sums[i][p]);
    }
  }
}

template <Int8Weights kWeights>
void RunAvx512Vnni(const Int8Tile& tile) {
  const auto run =
      tile.n_panels > 1 ? RunAvx512VnniRows<kWeights, 2> : RunAvx512VnniRows<kWeights, 1>;
  for (std::int64_t row = 0; row < tile.n_rows; row += 8) {
    run(tile, tile.a + row * tile.a_stride, tile.c + row * tile.c_stride);
  }
}

#define DPB_AVX2 __attribute__((target("avx2")))

// The even and the odd bytes of groups, as numbers of 16 bits.
struct WideBytes {
  __m256i even;
  __m256i odd;
};

template <bool kIsSigned>
DPB_AVX2 inline WideBytes Widen(__m256i groups) {
  if constexpr (kIsSigned) {
    return {_mm256_srai_epi16(_mm256_slli_epi16(groups, 8), 8), _mm256_srai_epi16(groups, 8)};
  } else {
    return {_mm256_and_si256(groups, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16(groups, 8)};
  }
}

// Eight columns. VPMADDUBSW, which multiplies bytes, would saturate.
template <Int8Weights kWeights>
DPB_AVX2 void RunAvx2Rows(const Int8Tile& tile, const std::uint8_t* a, const std::uint8_t* b,
                          std::int32_t* c) {
  constexpr bool kHasSignedRows = kWeights == Int8Weights::kInRows;
  constexpr int kRows = 8;
  __m256i sums[kRows] = {};
  for (std::int64_t block = 0; block < tile.n_blocks; ++block, a += kInt8Inner) {
    const std::uint8_t* of_b = b + tile.block_offsets[block];
    for (std::int64_t k = 0; k < kInt8Inner; k += kGroup, of_b += tile.b_stride) {
      __m256i groups;
      std::memcpy(&groups, of_b, sizeof(groups));
      const WideBytes wide_b = Widen<!kHasSignedRows>(groups);
      _Pragma("GCC unroll 8") for (int i = 0; i < kRows; ++i) {
        int group;
        std::memcpy(&group, a + i * tile.a_stride + k, sizeof(group));
        const WideBytes wide_a = Widen<kHasSignedRows>(_mm256_set1_epi32(group));
        const __m256i products = _mm256_add_epi32(_mm256_madd_epi16(wide_a.even, wide_b.even),
                                                  _mm256_madd_epi16(wide_a.odd, wide_b.odd));
        sums[i] = _mm256_add_epi32(sums[i], products);
      }
    }
  }
  _Pragma("GCC unroll 8") for (int i = 0; i < kRows; ++i) {
    std::memcpy(c + i * tile.c_stride, &sums[i], sizeof(sums[i]));
  }
}

template <Int8Weights kWeights>
void RunAvx2(const Int8Tile& tile) {
  constexpr std::int64_t kColumns = 8;
  for (std::int64_t column = 0; column < tile.n_panels * kBf16Width; column += kColumns) {
    const std::uint8_t* b =
        tile.b + column / kBf16Width * tile.panel_stride + column % kBf16Width * kGroup;
    for (std::int64_t row = 0; row < tile.n_rows; row += 8) {
      RunAvx2Rows<kWeights>(tile, tile.a + row * tile.a_stride, b,
                            tile.c + row * tile.c_stride + column);
    }
  }
}
#endif

template <Int8Weights kWeights>
Int8Kernel FindKernel(Int8Processor processor) {
#if defined(__x86_64__)
  switch (processor) {
    case Int8Processor::kAmx:
      if (!HasAmx()) return nullptr;
      return kWeights == Int8Weights::kInRows ? RunAmxInt8WithWeightsInRows
                                              : RunAmxInt8WithWeightsInPanels;
    case Int8Processor::kAvx512Vnni:
      return __builtin_cpu_supports("avx512vnni") ? RunAvx512Vnni<kWeights> : nullptr;
    case Int8Processor::kAvx2:
      return __builtin_cpu_supports("avx2") ? RunAvx2<kWeights> : nullptr;
    case Int8Processor::kAny:
      break;
  }
  return RunOnAnyMachine<kWeights>;
#else
  return processor == Int8Processor::kAny ? RunOnAnyMachine<kWeights> : nullptr;
#endif
}

Int8Processor FastestInt8Processor(Int8Weights weights) {
  for (const Int8Processor processor :
       {Int8Processor::kAmx, Int8Processor::kAvx512Vnni, Int8Processor::kAvx2}) {
    if (FindInt8Kernel(processor, weights) != nullptr) return processor;
  }
  return Int8Processor::kAny;
}

}  // namespace

Int8Kernel FindInt8Kernel(Int8Processor processor, Int8Weights weights) {
  return weights == Int8Weights::kInRows ? FindKernel<Int8Weights::kInRows>(processor)
                                         : FindKernel<Int8Weights::kInPanels>(processor);
}

Int8Kernels::Int8Kernels(Int8Weights weights)
    : Int8Kernels(FastestInt8Processor(weights), weights) {}

Int8Kernels::Int8Kernels(Int8Processor processor, Int8Weights weights)
    : kernel_(FindInt8Kernel(processor, weights)), uses_amx_(processor == Int8Processor::kAmx) {
#if defined(__x86_64__)
  if (uses_amx_) LoadAmxTiles();
#endif
}

Int8Kernels::~Int8Kernels() {
#if defined(__x86_64__)
  if (uses_amx_) ReleaseAmxTiles();
#endif
}

}  // namespace dp_bench::policy
