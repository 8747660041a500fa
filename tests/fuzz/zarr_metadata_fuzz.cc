// A .zarray, or, behind an odd byte, a .zattrs.
#include "fuzz.h"
#include "zarr_attributes.h"
#include "zarr_metadata.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  if (input.TakeByte() % 2 == 1) {
    fuzz::Accepts([&] { zarr_replay::ParseZarrAttributes(input.text(), ".zattrs"); });
    return;
  }
  fuzz::Accepts([&] {
    const auto metadata = zarr_replay::ParseZarrMetadata(input.bytes(), ".zarray");
    DPB_ASSERT(metadata.chunk_bytes > 0 && metadata.num_elements >= 0 && metadata.num_chunks >= 0);
  });
}
