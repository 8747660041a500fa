// MT19937 as in the authors' reference description, and numpy's legacy distributions on top of it.
#include "legacy_random.h"

#include <bit>
#include <cmath>
#include <cstddef>

namespace dp_bench::pusht {

LegacyRandomState::LegacyRandomState(std::uint64_t seed) {
  const auto low = static_cast<std::uint32_t>(seed);
  const auto high = static_cast<std::uint32_t>(seed >> 32);
  if (high == 0) {
    SeedByNumber(low);
  } else {
    SeedByWords({low, high});
  }
}

void LegacyRandomState::SeedByNumber(std::uint32_t seed) {
  words_[0] = seed;
  for (std::uint32_t i = 1; i < kWords; ++i) {
    words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
  }
  next_ = kWords;
}

void LegacyRandomState::SeedByWords(std::array<std::uint32_t, 2> words) {
  SeedByNumber(19650218U);
  std::uint32_t i = 1;
  // both passes walk the words in a circle whose last value is carried to the front
  const auto advance = [&] {
    if (++i >= kWords) {
      words_[0] = words_[kWords - 1];
      i = 1;
    }
  };
  for (std::uint32_t k = 0; k < kWords; ++k) {
    const std::uint32_t j = k % 2;
    const std::uint32_t previous = words_[i - 1] ^ (words_[i - 1] >> 30);
    words_[i] = (words_[i] ^ (previous * 1664525U)) + words[j] + j;
    advance();
  }
  for (std::uint32_t k = 1; k < kWords; ++k) {
    const std::uint32_t previous = words_[i - 1] ^ (words_[i - 1] >> 30);
    words_[i] = (words_[i] ^ (previous * 1566083941U)) - i;
    advance();
  }
  words_[0] = 0x80000000U;
}

void LegacyRandomState::Twist() {
  constexpr std::size_t kMiddle = 397;
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint32_t y = (words_[i] & 0x80000000U) | (words_[(i + 1) % kWords] & 0x7fffffffU);
    const std::uint32_t twist = (y & 1U) != 0U ? 0x9908b0dfU : 0U;
    words_[i] = words_[(i + kMiddle) % kWords] ^ (y >> 1) ^ twist;
  }
  next_ = 0;
}

std::uint32_t LegacyRandomState::NextU32() {
  if (next_ == kWords) Twist();
  std::uint32_t y = words_[static_cast<std::size_t>(next_++)];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

double LegacyRandomState::UniformDouble() {
  const double high = NextU32() >> 5;  // 27 bits
  const double low = NextU32() >> 6;   // 26 bits
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

std::int64_t LegacyRandomState::RandInt(std::int64_t low, std::int64_t high) {
  const auto range = static_cast<std::uint32_t>(high - low - 1);
  const auto mask = static_cast<std::uint32_t>(std::bit_ceil(std::uint64_t{range} + 1) - 1);
  std::uint32_t value = range == 0 ? 0 : NextU32() & mask;
  while (value > range) value = NextU32() & mask;
  return low + value;
}

double LegacyRandomState::Randn() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  double x1 = 0.0;
  double x2 = 0.0;
  double r2 = 0.0;
  do {
    x1 = 2.0 * UniformDouble() - 1.0;
    x2 = 2.0 * UniformDouble() - 1.0;
    r2 = x1 * x1 + x2 * x2;
  } while (r2 >= 1.0 || r2 == 0.0);
  const double factor = std::sqrt(-2.0 * std::log(r2) / r2);
  spare_normal_ = factor * x1;
  has_spare_normal_ = true;
  return factor * x2;
}

}  // namespace dp_bench::pusht
