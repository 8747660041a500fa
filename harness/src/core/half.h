// 16-bit floating point numbers, to store weights in half of their bytes. Header-only, torch-free.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace dp_bench::core {

/// The value of an IEEE 754 binary16 number. Exact; the payload of a NaN is kept.
inline float FromFloat16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t widened = exponent == 0x1F ? 0xFF : exponent + 127 - 15;
  return std::bit_cast<float>(sign | (widened << 23) | (mantissa << 13));
}

/// The value of a bfloat16 number: the upper half of a float32.
inline float FromBfloat16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

/// The nearest bfloat16; a tie goes to the even one. Numbers too large become infinite, and every
/// NaN becomes the same quiet NaN.
inline std::uint16_t ToBfloat16(float value) {
  if (std::isnan(value)) return 0x7FC0U;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// The nearest float16; a tie goes to the even one. Numbers too large become infinite, and every
/// NaN becomes the same quiet NaN.
inline std::uint16_t ToFloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00U;
  if (magnitude >= 65520.0F) return sign | 0x7C00U;  // rounds to 65536
  if (magnitude < 0x1p-14F) {
    // adding 0.5 leaves exactly the multiples of 2^-24 in the mantissa, rounded by the processor
    const std::uint32_t rounded = std::bit_cast<std::uint32_t>(magnitude + 0.5F);
    return sign | static_cast<std::uint16_t>(rounded - std::bit_cast<std::uint32_t>(0.5F));
  }
  const std::uint32_t rest = bits & 0x7FFFFFFFU;
  const std::uint32_t is_odd = (rest >> 13) & 1U;
  const std::uint32_t rounded = (rest - ((127U - 15U) << 23) + 0xFFFU + is_odd) >> 13;
  return sign | static_cast<std::uint16_t>(rounded);
}

}  // namespace dp_bench::core
