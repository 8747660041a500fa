// A .zarr.zip, opened as a dataset with a memory limit, and read.
#include <vector>

#include "data/zarr/store.h"
#include "fuzz.h"
#include "zarr_replay_dataset.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] {
    const zarr_replay::ZarrReplayDataset dataset({.path = "a.zip", .memory_limit_mb = 1},
                                                 zarr::OpenZipStore(input.bytes(), "a.zip"));
    const DatasetSpec& spec = dataset.spec();
    for (std::size_t key = 0; key < spec.keys.size(); ++key) {
      std::vector<std::byte> step(spec.keys[key].ByteSize());
      if (step.size() < (1U << 20)) dataset.Read(static_cast<int>(key), 0, 1, step);
    }
  });
}
