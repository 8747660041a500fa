// Philox4x32-10 and the distributions built on it. Block function: Salmon et al. 2011, "Parallel
// random numbers: as easy as 1, 2, 3", section 3.3; bounded integers: Lemire 2019, "Fast random
// integer generation in an interval"; normals: Box & Muller 1958. The code uses only +, -, *, /,
// sqrt and integer arithmetic. IEEE 754 specifies all of them exactly, so every machine draws the
// same bits.
#include "dp_bench/random.h"

#include <bit>
#include <cmath>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

// An odd number, so id -> seed + id * kIdStride is injective for a fixed seed. It is 2^64 divided
// by the golden ratio, so the ids in use also keep streams apart for seeds that differ by less than
// 2^59.
constexpr std::uint64_t kIdStride = 0x9E3779B97F4A7C15U;

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kHalfPi = 1.57079632679489661923;
constexpr double kSqrtHalf = 0.70710678118654752440;

// The first omitted term is below 2e-14.
double Log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52U) - 1022;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFU) | 0x3FE0000000000000U);  // [1/2, 1)
  if (m < kSqrtHalf) {
    m *= 2.0;
    --exponent;
  }
  const double z = (m - 1.0) / (m + 1.0);
  const double w = z * z;
  double series = 1.0 / 15.0;
  for (const double c : {1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0}) {
    series = series * w + c;
  }
  return exponent * kLn2 + 2.0 * z * series;
}

struct SinCos {
  double sin;
  double cos;
};

// sin and cos of `turns` full turns, turns in [0, 1]. The nearest quarter turn is split off, and
// Taylor series cover the rest, |angle| <= pi/4. The first omitted terms are below 7e-12.
SinCos SinCosTurns(double turns) {
  const double quarters = turns * 4.0;
  const int quadrant = static_cast<int>(quarters + 0.5);
  const double angle = (quarters - quadrant) * kHalfPi;
  const double w = angle * angle;
  double s = -1.0 / 39916800.0;
  for (const double c : {1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0})
    s = s * w + c;
  s *= angle;
  double c0 = 1.0 / 479001600.0;
  for (const double c : {-1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0}) {
    c0 = c0 * w + c;
  }
  switch (quadrant & 3) {
    case 0:
      return {s, c0};
    case 1:
      return {c0, -s};
    case 2:
      return {-s, -c0};
    default:
      return {-c0, s};
  }
}

std::uint32_t Low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t High(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32U); }

}  // namespace

std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {High(p1) ^ counter[1] ^ key[0], Low(p1), High(p0) ^ counter[3] ^ key[1], Low(p0)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

// No two streams of one seed share a (key, counter) pair. Different ids have different keys. Under
// one key, the counter holds all of minor and major next to 32 bits of block index that never carry
// into them. A stream therefore has 2^34 words.
RandomStream::RandomStream(std::uint64_t seed, StreamId id, std::uint64_t major,
                           std::uint32_t minor)
    : counter_{0, minor, Low(major), High(major)} {
  const std::uint64_t key = seed + static_cast<std::uint64_t>(id) * kIdStride;
  key_ = {Low(key), High(key)};
}

void RandomStream::Refill() {
  block_ = Philox4x32(counter_, key_);
  ++counter_[0];
  DPB_ASSERT(counter_[0] != 0);  // 2^34 words are used up; more would repeat them
  next_ = 0;
}

std::uint32_t RandomStream::NextU32() {
  if (next_ == 4) Refill();
  return block_[static_cast<std::size_t>(next_++)];
}

float RandomStream::Uniform() { return static_cast<float>(NextU32() >> 8U) * 0x1p-24F; }

double RandomStream::UniformDouble() {
  const std::uint64_t high = NextU32() >> 5U;
  const std::uint64_t low = NextU32() >> 6U;
  return static_cast<double>((high << 26U) | low) * 0x1p-53;
}

std::uint32_t RandomStream::UniformInt(std::uint32_t bound) {
  DPB_ASSERT(bound > 0);
  // the high word of word * bound is the draw; low words under 2^32 mod bound must be rejected, or
  // they would be counted twice
  std::uint64_t product = std::uint64_t{NextU32()} * bound;
  if (Low(product) < bound) {
    const std::uint32_t threshold = (0U - bound) % bound;
    while (Low(product) < threshold) product = std::uint64_t{NextU32()} * bound;
  }
  return High(product);
}

float RandomStream::Normal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  // u lies strictly between 0 and 1, so the logarithm is finite: |normal| <= sqrt(66 ln 2) = 6.77
  const double u = (static_cast<double>(NextU32()) + 0.5) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * Log(u));
  const SinCos direction = SinCosTurns(static_cast<double>(NextU32()) * 0x1p-32);
  spare_normal_ = static_cast<float>(radius * direction.sin);
  has_spare_normal_ = true;
  return static_cast<float>(radius * direction.cos);
}

}  // namespace dp_bench
