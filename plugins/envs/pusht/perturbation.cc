#include "perturbation.h"

#include <algorithm>
#include <cstddef>

#include "dp_bench/config_keys.h"
#include "dp_bench/random.h"

namespace dp_bench::pusht {
namespace {

// At strength 1: the smallest share of its light that a channel keeps, and the largest share of its
// velocity that the block keeps per substep of 10 ms.
constexpr double kDimmest = 0.4;
constexpr double kLongestSlide = 0.9;

// Streams of kEnvStart, one each, so that one perturbation does not shift another's draws.
constexpr std::uint64_t kLightDraws = 1;
constexpr std::uint64_t kFrictionDraws = 2;

}  // namespace

PerturbationParams PerturbationParams::FromConfig(const Config& params) {
  PerturbationParams p;
  p.is_given = params.Has("perturb");
  if (!p.is_given) return p;
  const ConfigKeys keys(params.Sub(
      "perturb", "what makes an evaluation harder than the task; drawn per episode from its seed"));
  keys("light", &p.light, 0.0, 1.0,
       "1: coloured light, each channel of the image dimmed by up to 60 %");
  keys("friction", &p.friction, 0.0, 1.0,
       "1: the block slides on after a push and keeps up to 90 % of its velocity per 10 ms");
  return p;
}

std::vector<PerturbationSpec> PerturbationParams::Kinds() {
  return {{.name = "friction"}, {.name = "light", .is_visual = true}};
}

Perturbation Perturbation::Draw(const PerturbationParams& params, std::uint64_t seed) {
  Perturbation drawn;
  RandomStream light(seed, StreamId::kEnvStart, kLightDraws);
  for (double& factor : drawn.light) {
    factor = 1.0 - params.light * (1.0 - kDimmest) * light.UniformDouble();
  }
  RandomStream friction(seed, StreamId::kEnvStart, kFrictionDraws);
  drawn.slide = params.friction * kLongestSlide * friction.UniformDouble();
  return drawn;
}

void Perturbation::Light(std::span<std::uint8_t> rgb) const {
  if (std::ranges::all_of(light, [](double factor) { return factor == 1.0; })) return;
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    rgb[i] = static_cast<std::uint8_t>(light[i % 3] * rgb[i] + 0.5);
  }
}

}  // namespace dp_bench::pusht
