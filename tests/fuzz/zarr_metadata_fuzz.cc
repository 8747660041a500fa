// A .zarray, or, behind an odd byte, a .zattrs.
#include "data/zarr/attributes.h"
#include "data/zarr/metadata.h"
#include "fuzz.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  if (input.TakeByte() % 2 == 1) {
    fuzz::Accepts([&] { zarr::ParseZarrAttributes(input.text(), ".zattrs"); });
    return;
  }
  fuzz::Accepts([&] {
    const auto metadata = zarr::ParseZarrMetadata(input.bytes(), ".zarray");
    DPB_ASSERT(metadata.chunk_bytes > 0 && metadata.num_elements >= 0 && metadata.num_chunks >= 0);
  });
}
