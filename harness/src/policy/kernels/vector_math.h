// Elementary functions as straight-line float arithmetic, for loops that the compiler vectorizes.
// Equal inputs give equal bits in every lane and in the loop's remainder.
#pragma once

#include <bit>
#include <cstdint>

#define DPB_ALWAYS_INLINE inline __attribute__((always_inline))

// Compiles a function for several instruction sets; the machine picks one at load time. Sanitizer
// builds keep one version, because the dispatch runs before the sanitizer's runtime is ready.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DPB_VECTOR_VERSIONS __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define DPB_VECTOR_VERSIONS
#endif

namespace dp_bench::policy {

/// Threads for a loop over elements. Passing work to other threads costs about as much as this
/// many.
inline int UsefulThreads(std::int64_t n_elements, int n_threads) {
  constexpr std::int64_t kElementsPerTask = 32768;
  return n_elements < kElementsPerTask ? 1 : n_threads;
}

// e^x for x <= 88; Cephes' expf: 2^n * p(r), relative error below 2e-7.
DPB_ALWAYS_INLINE float Exp(float x) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * 1.44269504F + kMagic;
  const float n = shifted - kMagic;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
  return p * std::bit_cast<float>(exponent);
}

// 1 / x for 1e-37 < x < 1e37: Newton's iteration from an estimate that flips the exponent's bits;
// relative error below 3e-7. The division instruction took five times as long as the rest of Mish.
DPB_ALWAYS_INLINE float Reciprocal(float x) {
  float y = std::bit_cast<float>(0x7EF311C7U - std::bit_cast<std::uint32_t>(x));
  y = y * (2.0F - x * y);
  y = y * (2.0F - x * y);
  y = y * (2.0F - x * y);
  return y;
}

/// An activation and its derivative.
struct ActivationValue {
  float value;
  float slope;
};

/// mish(x) = x tanh(log(1 + e^x)) = x w / (w + 2) with w = e^x (e^x + 2).
DPB_ALWAYS_INLINE float Mish(float x) {
  const float e = Exp(x > 20.0F ? 20.0F : x);  // beyond 20, mish(x) = x in float32
  const float w = e * (e + 2.0F);
  return x * (w * Reciprocal(w + 2.0F));
}

DPB_ALWAYS_INLINE ActivationValue MishWithSlope(float x) {
  const float e = Exp(x > 20.0F ? 20.0F : x);
  const float w = e * (e + 2.0F);
  const float inverse = Reciprocal(w + 2.0F);
  const float ratio = w * inverse;
  return {x * ratio, ratio + 4.0F * x * (e * inverse) * ((e + 1.0F) * inverse)};
}

/// gelu(x) = x Phi(x). Phi follows Abramowitz and Stegun 7.1.26, absolute error below 2e-7; the
/// derivative uses the same exponential.
DPB_ALWAYS_INLINE ActivationValue GeluWithSlope(float x) {
  const float z = (x < 0.0F ? -x : x) * 0.70710678F;
  const float t = Reciprocal(1.0F + 0.3275911F * z);
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float gauss = Exp(-(z * z));
  const float tail = 0.5F * p * t * gauss;  // 1 - Phi(|x|)
  const float phi = x < 0.0F ? tail : 1.0F - tail;
  return {x * phi, phi + x * (0.39894228F * gauss)};
}

/// Activations as parameters of loops.
struct Gelu {
  static DPB_ALWAYS_INLINE ActivationValue At(float x) { return GeluWithSlope(x); }
};

struct Relu {
  // keeps NaN
  static DPB_ALWAYS_INLINE ActivationValue At(float x) {
    return {x < 0.0F ? 0.0F : x, x > 0.0F ? 1.0F : 0.0F};
  }
};

}  // namespace dp_bench::policy
