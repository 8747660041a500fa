// Any Env as a Simulation: the episode is that of the dp_bench program with the same seed.
#pragma once

#include <memory>
#include <vector>

#include "dp_bench/env.h"
#include "simulation.h"

namespace dp_bench::python {

class EnvSimulation final : public Simulation {
 public:
  explicit EnvSimulation(std::unique_ptr<Env> env);

  const SimulationSpec& spec() const override { return spec_; }
  void Reset(std::uint64_t seed) override;
  Outcome Step(std::span<const double> action) override;
  void Observe(std::span<std::byte* const> arrays, std::size_t row) override;
  void WriteInfos(std::span<double> infos) const override;
  void Render(RgbImage* frame) override { env_->Render(frame); }

 private:
  std::unique_ptr<Env> env_;
  SimulationSpec spec_;
  std::vector<float> action_;
  std::vector<double> metrics_;  // of the latest step
  std::vector<std::span<std::byte>> buffers_;
};

}  // namespace dp_bench::python
