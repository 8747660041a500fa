// Counter-based random streams: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
// easy as 1, 2, 3"). A draw depends only on (key, counter), and not on threads, the batch or other
// draws.
#pragma once

#include <array>
#include <cstdint>

#include "dp_bench/export.h"

namespace dp_bench {

/// The Philox4x32-10 block function, exposed for its known-answer test.
DPB_API std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> counter,
                                                std::array<std::uint32_t, 2> key);

/// The purpose of a stream. Streams of one seed never overlap. The numbers determine the draws, so
/// they never change. The harness uses the missing numbers internally.
enum class StreamId : std::uint32_t {
  kEnvStart = 1,
  kEnvNoise = 2,
  kPolicyNoise = 3,
  kDiffusionTimestep = 4,
  kTrainingNoise = 5,
  kCrop = 6,
  kAugment = 7,
  kDropout = 9,
  kPrefixLength = 10,
  kLatency = 11,
};

/// A stream of draws identified by (seed, id, major, minor): for example (episode seed,
/// kPolicyNoise, env step, 0), or (training seed, kTrainingNoise, global step, row). Copying it
/// copies its position.
class DPB_API RandomStream {
 public:
  RandomStream(std::uint64_t seed, StreamId id, std::uint64_t major = 0, std::uint32_t minor = 0);

  std::uint32_t NextU32();

  /// Uniform in [0, 1) with 24 bits.
  float Uniform();

  /// Uniform in [0, 1) with 53 bits.
  double UniformDouble();

  /// Uniform in {0, ..., bound - 1} without bias; `bound` > 0.
  std::uint32_t UniformInt(std::uint32_t bound);

  /// Standard normal (Box-Muller). Logarithm and trigonometric functions are our own polynomials,
  /// so the bits do not depend on the C library.
  float Normal();

 private:
  void Refill();

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_ = {};
  int next_ = 4;  // index of the next unused word of block_
  float spare_normal_ = 0.0F;
  bool has_spare_normal_ = false;
};

}  // namespace dp_bench
