// The location of the public PushT demonstrations, 32 MB that are not in the repository.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace dp_bench {

inline constexpr const char* kNoPushtDemonstrations =
    "no demonstrations: `scripts/get_data.sh pusht` fetches them, or DPB_PUSHT_DATA names the "
    "folder pusht_cchi_v7_replay.zarr";

/// The zarr folder: the environment variable DPB_PUSHT_DATA, or else the folder that
/// `scripts/get_data.sh pusht` fetched. Empty if neither exists; then skip with
/// kNoPushtDemonstrations. A wrong DPB_PUSHT_DATA is returned unchanged, so that the test fails.
inline std::filesystem::path FindPushtDemonstrations() {
  if (const char* const given = std::getenv("DPB_PUSHT_DATA")) return given;
  const std::filesystem::path fetched = DPB_SOURCE_DIR "/data/pusht/pusht_cchi_v7_replay.zarr";
  return std::filesystem::exists(fetched) ? fetched : std::filesystem::path();
}

}  // namespace dp_bench
