// See product_tiles.h.
#include "policy/kernels/product_tiles.h"

#include <algorithm>
#include <cstring>

namespace dp_bench::policy {
namespace {

// The body is a macro because a template inlined into a function for wider registers keeps the
// narrow registers it was first compiled for.
#define DPB_DEFINE_TILES(NAME, TARGET, BYTES)                                                    \
  struct NAME {                                                                                  \
    static constexpr std::int64_t kLanes = (BYTES) / 4;                                          \
    using Vector = float __attribute__((vector_size(BYTES)));                                    \
                                                                                                 \
    template <int kRows, int kVectors>                                                           \
    __attribute__((TARGET)) static void Run(const FloatTile& tile) {                             \
      Vector sums[kRows][kVectors] = {};                                                         \
      if (tile.accumulates) {                                                                    \
        _Pragma("GCC unroll 32") for (int i = 0; i < kRows * kVectors; ++i) {                    \
          std::memcpy(&sums[i / kVectors][i % kVectors],                                         \
                      tile.c + (i / kVectors) * tile.c_stride + (i % kVectors) * kLanes, BYTES); \
        }                                                                                        \
      }                                                                                          \
      const float* panel = tile.panel;                                                           \
      for (std::int64_t k = 0; k < tile.n_inner; ++k) {                                          \
        Vector b[kVectors];                                                                      \
        _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v, panel += kLanes) {            \
          std::memcpy(&b[v], panel, BYTES);                                                      \
        }                                                                                        \
        _Pragma("GCC unroll 32") for (int i = 0; i < kRows * kVectors; ++i) {                    \
          sums[i / kVectors][i % kVectors] +=                                                    \
              tile.a[(i / kVectors) * tile.a_stride + k] * b[i % kVectors];                      \
        }                                                                                        \
      }                                                                                          \
      _Pragma("GCC unroll 32") for (int i = 0; i < kRows * kVectors; ++i) {                      \
        std::memcpy(tile.c + (i / kVectors) * tile.c_stride + (i % kVectors) * kLanes,           \
                    &sums[i / kVectors][i % kVectors], BYTES);                                   \
      }                                                                                          \
    }                                                                                            \
  }

template <class Tiles, int kTallest, int kVectors>
constexpr FloatTiles PanelOf() {
  return {Tiles::kLanes * kVectors,
          {{{kTallest, Tiles::template Run<kTallest, kVectors>},
            {4, Tiles::template Run<4, kVectors>},
            {2, Tiles::template Run<2, kVectors>},
            {1, Tiles::template Run<1, kVectors>}}}};
}

// From the narrowest panel, for few columns, to the widest.
using TilesOfMachine = std::array<FloatTiles, 3>;

#if defined(__x86_64__)
DPB_DEFINE_TILES(TilesOf16, target("avx512f"), 64);
DPB_DEFINE_TILES(TilesOf8, target("avx2,fma"), 32);
DPB_DEFINE_TILES(TilesOf4, target("avx2,fma"), 16);

constexpr TilesOfMachine kAvx512 = {PanelOf<TilesOf8, 8, 1>(), PanelOf<TilesOf16, 8, 1>(),
                                    PanelOf<TilesOf16, 12, 2>()};
constexpr TilesOfMachine kAvx2 = {PanelOf<TilesOf4, 8, 1>(), PanelOf<TilesOf8, 8, 1>(),
                                  PanelOf<TilesOf8, 6, 2>()};
#endif

DPB_DEFINE_TILES(TilesOfAnyMachine, , 16);

constexpr TilesOfMachine kAnyMachine = {PanelOf<TilesOfAnyMachine, 8, 1>(),
                                        PanelOf<TilesOfAnyMachine, 6, 2>(),
                                        PanelOf<TilesOfAnyMachine, 6, 2>()};

const TilesOfMachine& TilesOfThisMachine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kAnyMachine;
}

}  // namespace

void CopyRows(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
              std::int64_t n_rows, std::int64_t n_columns) {
  for (std::int64_t i = 0; i < n_rows; ++i) {
    std::copy_n(from + i * from_stride, n_columns, to + i * to_stride);
  }
}

const FloatTiles& FloatTilesFor(std::int64_t n_columns) {
  const TilesOfMachine& machine = TilesOfThisMachine();
  for (const FloatTiles& tiles : machine) {
    if (n_columns <= tiles.width) return tiles;
  }
  return machine.back();
}

}  // namespace dp_bench::policy
