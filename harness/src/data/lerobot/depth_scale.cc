#include "data/lerobot/depth_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

constexpr int kCodeBits = 12;
constexpr int kNumCodes = 1 << kCodeBits;
constexpr int kFloatBits = 32;
constexpr float kMillimetresPerMetre = 1000.0F;

// NaN is not above 0.
std::uint16_t ToUint16(float millimetres) {
  constexpr float kMax = std::numeric_limits<std::uint16_t>::max();
  if (!(millimetres > 0.0F)) return 0;
  return static_cast<std::uint16_t>(std::min(std::nearbyint(millimetres), kMax));
}

}  // namespace

DepthScale DepthScale::OfCodes(const DepthCode& code) {
  DepthScale depth;
  depth.kind_ = Kind::kCodes;
  const auto level = [&code](double metres) {
    return code.is_logarithmic ? std::log(metres + code.shift) : metres;
  };
  // float32 after each operation, as in LeRobot
  const auto offset = static_cast<float>(level(code.min));
  const auto step = static_cast<float>((level(code.max) - level(code.min)) / (kNumCodes - 1));
  for (int i = 0; i < kNumCodes; ++i) {
    float metres = static_cast<float>(i) * step + offset;
    if (code.is_logarithmic) metres = std::exp(metres) - static_cast<float>(code.shift);
    metres = std::clamp(metres, static_cast<float>(code.min), static_cast<float>(code.max));
    depth.of_code_.push_back(ToUint16(metres * kMillimetresPerMetre));
  }
  return depth;
}

DepthScale DepthScale::OfUnit(std::optional<double> unit) {
  DepthScale depth;
  if (unit) depth.factor_ = *unit * kMillimetresPerMetre;
  return depth;
}

DepthScale DepthScale::OfLevels(double mm_per_level) {
  DepthScale depth;
  depth.kind_ = Kind::kLevels;
  depth.factor_ = mm_per_level;
  return depth;
}

void DepthScale::ToMillimetres(int bits, std::span<const float> values,
                               std::span<std::uint16_t> out) const {
  const auto require = [bits](bool holds, const char* expected) {
    if (holds) return;
    throw Error(ErrorCode::kData,
                fmt::format("expected a depth picture of {}, found {} bits", expected, bits));
  };
  if (kind_ == Kind::kCodes) {
    require(bits == kCodeBits, "12 bits");
    std::ranges::transform(values, out.begin(), [this](float code) {
      return of_code_[std::min(static_cast<std::size_t>(code), of_code_.size() - 1)];
    });
    return;
  }
  if (kind_ == Kind::kLevels) {
    require(bits == 8, "8 bits");
  } else {
    require(bits > 8, "16 or 32 bits (the key needs mm_per_level if it has 8)");
  }
  const double implied = bits == kFloatBits ? kMillimetresPerMetre : 1.0;
  const auto factor = static_cast<float>(factor_.value_or(implied));
  std::ranges::transform(values, out.begin(),
                         [factor](float value) { return ToUint16(value * factor); });
}

}  // namespace dp_bench::lerobot
