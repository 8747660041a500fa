// The .zattrs file at the root of a replay buffer, as `dp_bench collect` writes it.
#pragma once

#include <optional>

#include "store.h"

namespace dp_bench::zarr_replay {

inline constexpr double kMinFps = 1e-3;
inline constexpr double kMaxFps = 1e5;

struct ZarrAttributes {
  std::optional<double> fps;
  bool is_growing = false;  // "complete" is false: a collection goes on, or was interrupted
};

/// What the file says of these two; nothing without a file. Other keys are the business of others.
/// Throws Error{kData} when it is no JSON object or holds other types.
ZarrAttributes ReadZarrAttributes(const Store& store);

}  // namespace dp_bench::zarr_replay
