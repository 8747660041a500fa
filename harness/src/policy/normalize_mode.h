// The names of the normalization modes, for configs and messages. Includes LibTorch.
#pragma once

#include <array>
#include <string_view>

#include "dp_bench/normalizer.h"

namespace dp_bench::policy {

/// In the order of NormalizeMode.
inline constexpr std::array<std::string_view, 6> kNormalizeModeNames = {
    "limits", "gaussian", "identity", "image", "image_gaussian", "depth"};

inline std::string_view NameOf(NormalizeMode mode) {
  return kNormalizeModeNames.at(static_cast<std::size_t>(mode));
}

}  // namespace dp_bench::policy
