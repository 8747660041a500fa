#include "data/split.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "core/errors.h"

namespace dp_bench::data {

std::vector<bool> ValidationMask(std::int64_t n_episodes, double val_ratio, std::uint64_t seed) {
  if (!(val_ratio >= 0.0 && val_ratio <= 1.0)) {
    throw ConfigError("val_ratio is {}; expected a fraction of the episodes, 0 to 1", val_ratio);
  }
  std::vector<bool> mask(static_cast<std::size_t>(n_episodes), false);
  if (val_ratio == 0.0 || n_episodes < 2) return mask;

  // nearbyint rounds halves to even, as Python's round does
  const auto wanted =
      static_cast<std::int64_t>(std::nearbyint(static_cast<double>(n_episodes) * val_ratio));
  const std::int64_t n_val = std::clamp<std::int64_t>(wanted, 1, n_episodes - 1);
  for (const std::int64_t episode : NumpyChoice(seed, n_episodes, n_val)) {
    mask[static_cast<std::size_t>(episode)] = true;
  }
  return mask;
}

std::vector<bool> DownsampleMask(const std::vector<bool>& mask,
                                 std::optional<std::int64_t> max_episodes, std::uint64_t seed) {
  if (!max_episodes) return mask;
  if (*max_episodes < 0) {
    throw ConfigError("max_train_episodes is {}; leave it out (or null) for all episodes",
                      *max_episodes);
  }
  std::vector<std::size_t> episodes;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) episodes.push_back(i);
  }
  const auto n_episodes = static_cast<std::int64_t>(episodes.size());
  if (n_episodes <= *max_episodes) return mask;

  std::vector<bool> kept(mask.size(), false);
  for (const std::int64_t choice : NumpyChoice(seed, n_episodes, *max_episodes)) {
    kept[episodes[static_cast<std::size_t>(choice)]] = true;
  }
  return kept;
}

Split SplitEpisodes(std::int64_t n_episodes, double val_ratio,
                    std::optional<std::int64_t> max_train_episodes, std::uint64_t seed) {
  Split split;
  split.val = ValidationMask(n_episodes, val_ratio, seed);
  split.train = split.val;
  split.train.flip();
  split.train = DownsampleMask(split.train, max_train_episodes, seed);
  return split;
}

namespace {

__extension__ using Uint128 = unsigned __int128;

// numpy.random.SeedSequence(seed).generate_state(4, uint64), with its default pool of four words.
std::array<std::uint64_t, 4> GenerateState(std::uint64_t seed) {
  constexpr std::size_t kPoolSize = 4;
  constexpr int kXorShift = 16;

  // spread the entropy over the pool
  std::uint32_t hash_const = 0x43b0d7e5U;
  const auto hash_mix = [&hash_const](std::uint32_t value) {
    value ^= hash_const;
    hash_const *= 0x931e8875U;
    value *= hash_const;
    return value ^ (value >> kXorShift);
  };
  std::array<std::uint32_t, kPoolSize> pool = {static_cast<std::uint32_t>(seed),
                                               static_cast<std::uint32_t>(seed >> 32)};
  for (std::uint32_t& word : pool) word = hash_mix(word);

  // let every word of the pool depend on every other one
  for (std::size_t source = 0; source < kPoolSize; ++source) {
    for (std::size_t target = 0; target < kPoolSize; ++target) {
      if (source == target) continue;
      const std::uint32_t mixed = 0xca01f9ddU * pool[target] - 0x4973f715U * hash_mix(pool[source]);
      pool[target] = mixed ^ (mixed >> kXorShift);
    }
  }

  // read out eight words, low half first
  hash_const = 0x8b51f9ddU;
  std::array<std::uint64_t, 4> state = {};
  for (std::size_t i = 0; i < 2 * state.size(); ++i) {
    std::uint32_t word = pool[i % kPoolSize] ^ hash_const;
    hash_const *= 0x58f38dedU;
    word *= hash_const;
    word ^= word >> kXorShift;
    state[i / 2] |= static_cast<std::uint64_t>(word) << (32 * (i % 2));
  }
  return state;
}

class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) {
    const std::array<std::uint64_t, 4> words = GenerateState(seed);
    increment_ = (((static_cast<Uint128>(words[2]) << 64) | words[3]) << 1) | 1;
    Step();
    state_ += (static_cast<Uint128>(words[0]) << 64) | words[1];
    Step();
  }

  /// Uniform in {0, ..., max}. Ranges of up to 32 bits draw halves of 64-bit words, low half first.
  std::uint64_t Bounded(std::uint64_t max) {
    constexpr std::uint64_t kMax32 = 0xFFFFFFFFU;
    if (max == 0) return 0;
    if (max == kMax32) return Next32();
    if (max > kMax32) return Bounded64(max);

    const auto range = static_cast<std::uint32_t>(max + 1);
    const std::uint32_t threshold = static_cast<std::uint32_t>(kMax32 - max) % range;
    std::uint64_t product = std::uint64_t{Next32()} * range;
    while (static_cast<std::uint32_t>(product) < threshold) {
      product = std::uint64_t{Next32()} * range;
    }
    return product >> 32;
  }

 private:
  std::uint64_t Bounded64(std::uint64_t max) {
    const std::uint64_t range = max + 1;  // sizes are int64, so this cannot wrap
    const std::uint64_t threshold = (~std::uint64_t{0} - max) % range;
    Uint128 product = static_cast<Uint128>(Next64()) * range;
    while (static_cast<std::uint64_t>(product) < threshold) {
      product = static_cast<Uint128>(Next64()) * range;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  std::uint32_t Next32() {
    if (has_high_half_) {
      has_high_half_ = false;
      return high_half_;
    }
    const std::uint64_t word = Next64();
    high_half_ = static_cast<std::uint32_t>(word >> 32);
    has_high_half_ = true;
    return static_cast<std::uint32_t>(word);
  }

  std::uint64_t Next64() {
    Step();
    const auto high = static_cast<std::uint64_t>(state_ >> 64);
    const auto low = static_cast<std::uint64_t>(state_);
    return std::rotr(high ^ low, static_cast<int>(high >> 58));  // XSL-RR
  }

  void Step() {
    constexpr Uint128 kMultiplier =
        (static_cast<Uint128>(0x2360ED051FC65DA4U) << 64) | 0x4385DF649FCCF645U;
    state_ = state_ * kMultiplier + increment_;
  }

  Uint128 state_ = 0;
  Uint128 increment_ = 0;
  std::uint32_t high_half_ = 0;
  bool has_high_half_ = false;
};

// Fisher-Yates from the end of `values` down to position `first`.
void ShuffleTail(Pcg64* generator, std::int64_t first, std::vector<std::int64_t>* values) {
  for (std::int64_t i = static_cast<std::int64_t>(values->size()) - 1; i >= first; --i) {
    const std::uint64_t j = generator->Bounded(static_cast<std::uint64_t>(i));
    std::swap((*values)[static_cast<std::size_t>(j)], (*values)[static_cast<std::size_t>(i)]);
  }
}

// Floyd's algorithm: each new upper bound contributes a random smaller number, or itself when that
// one was drawn before. `size` stays small enough for a sorted vector to be the set.
std::vector<std::int64_t> ChooseByFloyd(Pcg64* generator, std::int64_t n, std::int64_t size) {
  std::vector<std::int64_t> chosen;
  std::vector<std::int64_t> sorted;
  chosen.reserve(static_cast<std::size_t>(size));
  sorted.reserve(static_cast<std::size_t>(size));
  for (std::int64_t bound = n - size; bound < n; ++bound) {
    auto value = static_cast<std::int64_t>(generator->Bounded(static_cast<std::uint64_t>(bound)));
    if (std::binary_search(sorted.begin(), sorted.end(), value)) value = bound;
    sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), value), value);
    chosen.push_back(value);
  }
  ShuffleTail(generator, 1, &chosen);
  return chosen;
}

}  // namespace

std::vector<std::int64_t> NumpyChoice(std::uint64_t seed, std::int64_t n, std::int64_t size) {
  if (size < 0 || size > n) throw InternalError("cannot choose {} of {} episodes", size, n);
  Pcg64 generator(seed);

  // numpy's thresholds: a large share of a large population is cheaper to shuffle
  constexpr std::int64_t kLargePopulation = 10000;
  constexpr std::int64_t kCutoff = 50;
  if (n <= kLargePopulation || size <= n / kCutoff) return ChooseByFloyd(&generator, n, size);

  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  ShuffleTail(&generator, std::max<std::int64_t>(n - size, 1), &all);
  return {all.end() - size, all.end()};
}

}  // namespace dp_bench::data
