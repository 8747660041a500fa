// The part of numpy's legacy generator, np.random.RandomState, that the peers' PushT uses for its
// start states: MT19937 (Matsumoto and Nishimura 1998), randint by masked rejection, randn by the
// polar method.
#pragma once

#include <cstdint>
#include <random>

namespace dp_bench::pusht {

/// Draws the same numbers as np.random.RandomState(seed), in the same order. numpy takes seeds
/// below 2^32; a larger one is seeded like RandomState([seed mod 2^32, seed div 2^32]).
class LegacyRandomState {
 public:
  explicit LegacyRandomState(std::uint64_t seed);

  std::uint32_t NextU32();

  /// Uniform in [0, 1) with 53 bits.
  double UniformDouble();

  /// Uniform in {low, ..., high - 1}; low < high, and high - low fits 32 bits.
  std::int64_t RandInt(std::int64_t low, std::int64_t high);

  /// Standard normal. Normals come in pairs; the second one is kept for the next call.
  double Randn();

 private:
  std::mt19937 engine_;
  double spare_normal_ = 0.0;
  bool has_spare_normal_ = false;
};

}  // namespace dp_bench::pusht
