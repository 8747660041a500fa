// Behind a byte that says which: a .zarray, a .zattrs, or the zarr.json of an array or of a data
// set.
#include "data/zarr/metadata.h"
#include "fuzz.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  const unsigned kind = input.TakeByte() % 4;
  fuzz::Accepts([&] {
    if (kind % 2 == 1) {
      zarr::ParseZarrAttributes(input.text(), "file", /*is_node=*/kind == 3);
      return;
    }
    const std::optional<zarr::ZarrMetadata> metadata =
        kind == 0 ? zarr::ParseZarrMetadata(input.bytes(), "file")
                  : zarr::ParseZarrNode(input.bytes(), "file");
    if (!metadata || !metadata->unreadable.empty()) return;
    DPB_ASSERT(metadata->chunk_bytes > 0 && metadata->num_elements >= 0 &&
               metadata->num_chunks >= 0 && metadata->chunks.size() == metadata->shape.size());
  });
}
