// What the Python environments step: one simulation with Gymnasium's seeds, arrays and infos.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/env.h"

namespace dp_bench::python {

/// An array of an observation, as each row of a batch has it.
struct ArraySpec {
  std::string name;
  Shape shape;
  std::string dtype;  // as numpy names it
  std::size_t n_bytes = 0;
};

struct SimulationSpec {
  std::vector<ArraySpec> obs;
  std::vector<float> action_low;
  std::vector<float> action_high;
  double control_hz = 0.0;
  int max_steps = 0;
  std::vector<std::string> infos;  // names of the numbers of an info
  std::size_t state_size = 0;      // of ResetTo; 0: not offered
};

class Simulation {
 public:
  struct Outcome {
    double reward = 0.0;
    bool is_terminated = false;
    bool is_success = false;
  };

  virtual ~Simulation() = default;

  virtual const SimulationSpec& spec() const = 0;

  /// Starts the episode of a seed.
  virtual void Reset(std::uint64_t seed) = 0;

  /// Starts an episode in a state of spec().state_size numbers.
  virtual void ResetTo(std::span<const double> /*state*/) {}

  /// `action`: finite numbers.
  virtual Outcome Step(std::span<const double> action) = 0;

  /// Writes row `row` of the arrays that begin at `arrays`.
  virtual void Observe(std::span<std::byte* const> arrays, std::size_t row) = 0;

  /// Writes the numbers of spec().infos; those that only a step has are 0 after a reset.
  virtual void WriteInfos(std::span<double> infos) const = 0;

  virtual void Render(RgbImage* frame) = 0;
};

}  // namespace dp_bench::python
