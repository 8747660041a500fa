// The part of numpy's generator, np.random.default_rng, that gym-pusht uses for its start states:
// SeedSequence, PCG64 (O'Neill 2014, "PCG: A family of simple fast space-efficient statistically
// good algorithms for random number generation", XSL-RR 128/64), bounded integers and uniforms.
#pragma once

#include <cstdint>

namespace dp_bench::python {

/// Draws the same numbers as np.random.default_rng(seed), in the same order.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(std::uint64_t seed);

  /// Uniform in {low, ..., high - 1}, like Generator.integers(low, high); low < high, and
  /// high - low is at most 2^32.
  std::int64_t Integers(std::int64_t low, std::int64_t high);

  /// Uniform in {0, ..., 2^63 - 1}, like Generator.integers(2**63).
  std::int64_t NonNegative();

  /// Uniform in [low, high), like Generator.uniform(low, high).
  double Uniform(double low, double high);

 private:
  // -Wpedantic knows no 128-bit integers; this spelling is an extension that it accepts
  __extension__ using U128 = unsigned __int128;

  void Advance();
  std::uint64_t NextU64();
  std::uint32_t NextU32();

  U128 state_ = 0;
  U128 increment_ = 0;
  std::uint32_t spare_word_ = 0;  // the upper half of the latest draw that was split
  bool has_spare_word_ = false;
};

}  // namespace dp_bench::python
