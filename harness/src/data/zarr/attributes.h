// The names in diffusion_policy's layout of a replay buffer: data/<key> with the steps of all
// episodes, meta/episode_ends, and attributes at the root, as `dp_bench collect` writes them: in
// .zattrs, or in the zarr.json of version 3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/zarr/store.h"

namespace dp_bench::zarr {

inline constexpr const char* kDataFolder = "data";
inline constexpr const char* kEpisodeEndsArray = "meta/episode_ends";

inline constexpr const char* kAttributesFile = ".zattrs";
inline constexpr const char* kFpsAttribute = "fps";
inline constexpr const char* kCompleteAttribute = "complete";
inline constexpr std::uint64_t kMaxAttributeBytes = std::uint64_t{1}
                                                    << 30;  // of a million episodes

struct ZarrAttributes {
  std::optional<double> fps;
  bool is_growing = false;  // "complete" is false: a collection is running or was interrupted
};

/// Reads these two attributes; none if there is no file. Other keys are ignored. Memory holds only
/// the text, of at most `max_bytes`. Throws Error{kData} if it is not a JSON object or a value has
/// another type.
ZarrAttributes ReadZarrAttributes(const Store& store, std::uint64_t max_bytes);

/// The same for the text of a .zattrs, or of a zarr.json; `file` is its name in messages.
ZarrAttributes ParseZarrAttributes(std::string_view text, const std::string& file,
                                   bool is_node = false);

}  // namespace dp_bench::zarr
