// From the numbers in a stored depth picture to millimetres.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/lerobot/metadata.h"

namespace dp_bench::lerobot {

class DepthScale {
 public:
  /// A video of 12-bit codes, as LeRobot decodes them: metres = exp(code * s + o) - shift or
  /// code * s + o, clamped to min and max, then rounded to millimetres.
  static DepthScale OfCodes(const DepthCode& code);

  /// Images of whole numbers or of floating-point numbers in `unit` [m]. If the unit is unknown,
  /// whole numbers are millimetres and others metres, as in LeRobot.
  static DepthScale OfUnit(std::optional<double> unit);

  /// Pictures of 8 bits, where one level is this many millimetres.
  static DepthScale OfLevels(double mm_per_level);

  /// Converts the numbers of a picture with `bits` per pixel. Values beyond 65535 mm become 65535,
  /// and negative numbers and NaN, which mean "no measurement", become 0. Throws Error{kData} if
  /// such pictures cannot have so many bits.
  void ToMillimetres(int bits, std::span<const float> values, std::span<std::uint16_t> out) const;

 private:
  enum class Kind { kCodes, kUnit, kLevels };

  Kind kind_ = Kind::kUnit;
  std::optional<double> factor_;        // of kUnit and kLevels [mm]
  std::vector<std::uint16_t> of_code_;  // [mm]
};

}  // namespace dp_bench::lerobot
