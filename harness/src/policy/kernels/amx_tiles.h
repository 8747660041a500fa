// The kernels of product_tiles.h for AMX, whose registers hold 16 rows of 64 bytes.
#pragma once

#include "policy/kernels/product_tiles.h"

#if defined(__x86_64__)
namespace dp_bench::policy {

/// Whether the processor has them and Linux lets this process use them.
bool HasAmx();

/// A thread calls the kernels between these two.
void LoadAmxTiles();
void ReleaseAmxTiles();

void RunAmxBf16(const Bf16Tile& tile);
void RunAmxInt8WithWeightsInRows(const Int8Tile& tile);
void RunAmxInt8WithWeightsInPanels(const Int8Tile& tile);

}  // namespace dp_bench::policy
#endif
