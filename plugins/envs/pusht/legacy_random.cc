// numpy's legacy distributions on the standard library's MT19937. The engine seeds itself from one
// word as numpy does; for several words numpy uses a different method.
#include "legacy_random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

namespace dp_bench::pusht {
namespace {

constexpr std::size_t kWords = std::mt19937::state_size;

/// The state after `init_by_array` of the authors' reference code, as a seed sequence: the engine
/// copies these words into its state.
class WordSeed {
 public:
  using result_type = std::uint32_t;

  explicit WordSeed(std::array<std::uint32_t, 2> words) {
    // init_genrand(19650218)
    state_[0] = 19650218U;
    for (std::uint32_t i = 1; i < kWords; ++i) state_[i] = 1812433253U * Previous(i) + i;

    // both passes go around the state in a circle and copy the last word to the front
    std::uint32_t i = 1;
    const auto advance = [&] {
      if (++i < kWords) return;
      state_[0] = state_[kWords - 1];
      i = 1;
    };
    for (std::uint32_t k = 0; k < kWords; ++k, advance()) {
      state_[i] = (state_[i] ^ (Previous(i) * 1664525U)) + words[k % 2] + k % 2;
    }
    for (std::uint32_t k = 1; k < kWords; ++k, advance()) {
      state_[i] = (state_[i] ^ (Previous(i) * 1566083941U)) - i;
    }
    state_[0] = 0x80000000U;
  }

  template <class Iterator>
  void generate(Iterator begin, Iterator /*end*/) const {
    std::ranges::copy(state_, begin);
  }

 private:
  std::uint32_t Previous(std::uint32_t i) const { return state_[i - 1] ^ (state_[i - 1] >> 30); }

  std::array<std::uint32_t, kWords> state_ = {};
};

std::mt19937 MakeEngine(std::uint64_t seed) {
  const auto low = static_cast<std::uint32_t>(seed);
  const auto high = static_cast<std::uint32_t>(seed >> 32);
  if (high == 0) return std::mt19937(low);
  WordSeed words({low, high});
  return std::mt19937(words);
}

}  // namespace

LegacyRandomState::LegacyRandomState(std::uint64_t seed) : engine_(MakeEngine(seed)) {}

std::uint32_t LegacyRandomState::NextU32() { return static_cast<std::uint32_t>(engine_()); }

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
