// The ways to normalize: their names, for configs and people, and what fitting them has in common.
// Includes LibTorch.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "dp_bench/normalizer.h"

namespace dp_bench::policy {

/// In the order of NormalizeMode.
inline constexpr std::array<std::string_view, 6> kNormalizeModeNames = {
    "limits", "gaussian", "identity", "image", "image_gaussian", "depth"};

inline std::string_view NameOf(NormalizeMode mode) {
  return kNormalizeModeNames.at(static_cast<std::size_t>(mode));
}

/// "limits", ...; throws Error{kConfig} for anything else.
NormalizeMode ParseNormalizeMode(std::string_view name);

/// What limits and image map to.
inline constexpr double kOutputMin = -1.0;
inline constexpr double kOutputMax = 1.0;

/// A dimension whose range (for gaussian its deviation) is below this has none.
inline constexpr double kRangeEps = 1e-4;

/// The dimensions without a range, which are centred and not scaled.
std::vector<int> FindZeroRangeDims(const KeyStats& stats, NormalizeMode mode);

}  // namespace dp_bench::policy
