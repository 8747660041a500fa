// See amx_tiles.h.
#include "policy/kernels/amx_tiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace dp_bench::policy {
namespace {

// The layout of _tile_loadconfig's argument.
struct TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved = {};
  std::array<std::uint16_t, 16> bytes_per_row = {};
  std::array<std::uint8_t, 16> n_rows = {};
};
static_assert(sizeof(TileConfig) == 64);

#define DPB_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8")))

constexpr TileConfig WholeTiles() {
  TileConfig config;
  for (std::size_t i = 0; i < 8; ++i) {
    config.bytes_per_row[i] = 64;
    config.n_rows[i] = kBf16Rows;
  }
  return config;
}

// The intrinsic does not tell the compiler that it reads the whole object, so it must not be one
// that is filled at run time.
alignas(64) constexpr TileConfig kWholeTiles = WholeTiles();

enum class Operands : std::uint8_t { kBf16, kSignedRows, kSignedPanels };

// The intrinsics take numbers of tiles that are constants of the preprocessor.
#define DPB_TILE_PRODUCT(TO, A, B)                           \
  if constexpr (kOperands == Operands::kBf16) {              \
    _tile_dpbf16ps(TO, A, B);                                \
  } else if constexpr (kOperands == Operands::kSignedRows) { \
    _tile_dpbsud(TO, A, B);                                  \
  } else {                                                   \
    _tile_dpbusd(TO, A, B);                                  \
  }

// Tiles 0 to 3 are c, 4 and 5 rows of a, 6 and 7 panels.
template <Operands kOperands, class Operand, class Sum>
DPB_AMX void RunAmx(const BlockTile<Operand, Sum>& tile) {
  constexpr std::int64_t kInner = 64 / sizeof(Operand);
  const bool has_rows = tile.n_rows > kBf16Rows;
  const bool has_panel = tile.n_panels > 1;
  const auto a_bytes = static_cast<std::size_t>(tile.a_stride) * sizeof(Operand);
  const auto b_bytes = static_cast<std::size_t>(tile.b_stride) * sizeof(Operand);
  const auto c_bytes = static_cast<std::size_t>(tile.c_stride) * sizeof(Sum);
  const Operand* lower_a = tile.a + kBf16Rows * tile.a_stride;
  Sum* lower_c = tile.c + kBf16Rows * tile.c_stride;
  if (tile.accumulates) {
    _tile_loadd(0, tile.c, c_bytes);
    if (has_panel) _tile_loadd(1, tile.c + kBf16Width, c_bytes);
    if (has_rows) _tile_loadd(2, lower_c, c_bytes);
    if (has_rows && has_panel) _tile_loadd(3, lower_c + kBf16Width, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t block = 0; block < tile.n_blocks; ++block) {
    const Operand* b = tile.b + tile.block_offsets[block];
    _tile_loadd(4, tile.a + block * kInner, a_bytes);
    _tile_loadd(6, b, b_bytes);
    DPB_TILE_PRODUCT(0, 4, 6);
    if (has_panel) {
      _tile_loadd(7, b + tile.panel_stride, b_bytes);
      DPB_TILE_PRODUCT(1, 4, 7);
    }
    if (!has_rows) continue;
    _tile_loadd(5, lower_a + block * kInner, a_bytes);
    DPB_TILE_PRODUCT(2, 5, 6);
    if (has_panel) {
      DPB_TILE_PRODUCT(3, 5, 7);
    }
  }
  _tile_stored(0, tile.c, c_bytes);
  if (has_panel) _tile_stored(1, tile.c + kBf16Width, c_bytes);
  if (!has_rows) return;
  _tile_stored(2, lower_c, c_bytes);
  if (has_panel) _tile_stored(3, lower_c + kBf16Width, c_bytes);
}

}  // namespace

// Linux lets a process use the tiles after it asked (Documentation/arch/x86/xstate.rst). Not every
// compiler has names of the features for __builtin_cpu_supports.
bool HasAmx() {
  static const bool has_amx = [] {
    constexpr unsigned int kExtendedFeatures = 7;
    constexpr unsigned int kBf16TileAndInt8 = 1U << 22U | 1U << 24U | 1U << 25U;  // of edx
    constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr int kTileData = 18;
    unsigned int eax = 0;
    unsigned int ebx = 0;
    unsigned int ecx = 0;
    unsigned int edx = 0;
    return __get_cpuid_count(kExtendedFeatures, 0, &eax, &ebx, &ecx, &edx) != 0 &&
           (edx & kBf16TileAndInt8) == kBf16TileAndInt8 &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has_amx;
}

DPB_AMX void LoadAmxTiles() { _tile_loadconfig(&kWholeTiles); }

DPB_AMX void ReleaseAmxTiles() { _tile_release(); }

DPB_AMX void RunAmxBf16(const Bf16Tile& tile) { RunAmx<Operands::kBf16>(tile); }

DPB_AMX void RunAmxInt8WithWeightsInRows(const Int8Tile& tile) {
  RunAmx<Operands::kSignedRows>(tile);
}

DPB_AMX void RunAmxInt8WithWeightsInPanels(const Int8Tile& tile) {
  RunAmx<Operands::kSignedPanels>(tile);
}

}  // namespace dp_bench::policy
#endif
