// SeedSequence: M.E. O'Neill 2015, "Developing a seed_seq alternative", with numpy's constants.
// Bounded integers: Lemire 2019, "Fast random integer generation in an interval".
#include "numpy_random.h"

#include <array>
#include <bit>
#include <cstddef>

namespace dp_bench::python {
namespace {

constexpr std::size_t kPoolSize = 4;
using Pool = std::array<std::uint32_t, kPoolSize>;

/// Hashes words one after the other; the hash of a word depends on how many came before.
class WordHash {
 public:
  WordHash(std::uint32_t start, std::uint32_t multiplier)
      : constant_(start), multiplier_(multiplier) {}

  std::uint32_t operator()(std::uint32_t word) {
    word ^= constant_;
    constant_ *= multiplier_;
    word *= constant_;
    return word ^ (word >> 16);
  }

 private:
  std::uint32_t constant_;
  std::uint32_t multiplier_;
};

std::uint32_t Mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t mixed = 0xca01f9ddU * x - 0x4973f715U * y;
  return mixed ^ (mixed >> 16);
}

/// The entropy pool of np.random.SeedSequence(seed). A seed has at most two words, so no word is
/// left over when the pool is filled.
Pool EntropyPool(std::uint64_t seed) {
  const Pool words = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  WordHash hash(0x43b0d7e5U, 0x931e8875U);
  Pool pool;
  for (std::size_t i = 0; i < kPoolSize; ++i) pool[i] = hash(words[i]);
  for (std::size_t from = 0; from < kPoolSize; ++from) {
    for (std::size_t to = 0; to < kPoolSize; ++to) {
      if (from != to) pool[to] = Mix(pool[to], hash(pool[from]));
    }
  }
  return pool;
}

/// SeedSequence.generate_state(4, np.uint64).
std::array<std::uint64_t, 4> GenerateState(const Pool& pool) {
  WordHash hash(0x8b51f9ddU, 0x58f38dedU);
  std::array<std::uint64_t, 4> state;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::uint64_t low = hash(pool[2 * i % kPoolSize]);
    const std::uint64_t high = hash(pool[(2 * i + 1) % kPoolSize]);
    state[i] = low | high << 32;
  }
  return state;
}

}  // namespace

NumpyGenerator::NumpyGenerator(std::uint64_t seed) {
  const auto words = GenerateState(EntropyPool(seed));
  const U128 start = U128{words[0]} << 64 | words[1];
  const U128 sequence = U128{words[2]} << 64 | words[3];
  increment_ = sequence << 1 | 1;
  Advance();
  state_ += start;
  Advance();
}

void NumpyGenerator::Advance() {
  constexpr U128 kMultiplier = U128{0x2360ED051FC65DA4U} << 64 | 0x4385DF649FCCF645U;
  state_ = state_ * kMultiplier + increment_;
}

std::uint64_t NumpyGenerator::NextU64() {
  Advance();
  const auto high = static_cast<std::uint64_t>(state_ >> 64);
  const auto low = static_cast<std::uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

std::uint32_t NumpyGenerator::NextU32() {
  if (has_spare_word_) {
    has_spare_word_ = false;
    return spare_word_;
  }
  const std::uint64_t next = NextU64();
  spare_word_ = static_cast<std::uint32_t>(next >> 32);
  has_spare_word_ = true;
  return static_cast<std::uint32_t>(next);
}

std::int64_t NumpyGenerator::Integers(std::int64_t low, std::int64_t high) {
  const auto bound = static_cast<std::uint64_t>(high - low);
  if (bound == std::uint64_t{1} << 32) return low + NextU32();
  std::uint64_t product = NextU32() * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    // low words under 2^32 mod bound are rejected, or they would be counted twice
    const std::uint64_t threshold = ((std::uint64_t{1} << 32) - bound) % bound;
    while (static_cast<std::uint32_t>(product) < threshold) product = NextU32() * bound;
  }
  return low + static_cast<std::int64_t>(product >> 32);
}

std::int64_t NumpyGenerator::NonNegative() { return static_cast<std::int64_t>(NextU64() >> 1); }

double NumpyGenerator::Uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(NextU64() >> 11) * 0x1p-53);
}

}  // namespace dp_bench::python
