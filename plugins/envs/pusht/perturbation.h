// Makes PushT harder than the task: coloured light in its images, and a block that keeps sliding
// after a push. Drawn per episode from its seed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/env.h"

namespace dp_bench::pusht {

/// The param `perturb`: strengths from 0 to 1. Without the param nothing is drawn.
struct PerturbationParams {
  bool is_given = false;
  double light = 0.0;
  double friction = 0.0;

  static PerturbationParams FromConfig(const Config& params);

  /// Its keys.
  static std::vector<PerturbationSpec> Kinds();
};

/// One episode's draw.
struct Perturbation {
  std::array<double, 3> light = {1.0, 1.0, 1.0};  // factors of red, green and blue
  double slide = 0.0;                             // PushtPhysics::SetSlide

  static Perturbation Draw(const PerturbationParams& params, std::uint64_t seed);

  /// Applies the light to `rgb`, [..., 3].
  void Light(std::span<std::uint8_t> rgb) const;
};

}  // namespace dp_bench::pusht
