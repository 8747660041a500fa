// How long a plan takes, as a distribution: the section `env_runner.chunking.latency` of a config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/config.h"

namespace dp_bench::control {

enum class LatencyDistribution {
  kNone,       // every plan takes env_runner.chunking.delay
  kLogNormal,  // median_ms * exp(sigma * N(0, 1))
  kLongTail,   // the same, and a share of the plans takes a multiple of it
  kMeasured    // between the numbers of samples_ms, all equally likely
};

struct LatencyModel {
  LatencyDistribution distribution = LatencyDistribution::kNone;
  double median_ms = 100.0;
  double sigma = 0.25;
  double tail_share = 0.05;
  double tail_factor = 5.0;
  std::vector<double> samples_ms;   // ascending
  std::optional<std::string> file;  // that has the samples, for the program that reads it

  /// Throws Error{kConfig} for kMeasured without samples or a file.
  static LatencyModel FromConfig(const Config& section);

  bool is_random() const { return distribution != LatencyDistribution::kNone; }

  /// Of the plan that is asked for after `env_step` steps of an episode: a function of its seed.
  double DrawMs(std::uint64_t seed, std::uint64_t env_step) const;

  double MedianMs() const;
};

/// The control steps that a time takes, rounded up.
int ControlSteps(double ms, double control_hz);

}  // namespace dp_bench::control
