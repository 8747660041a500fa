// The smallest env, for plugins that are broken elsewhere. `fault` says what it throws, and where.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "dp_bench/config.h"
#include "dp_bench/env.h"

namespace dp_bench::broken {

class ToyEnv final : public Env {
 public:
  static std::unique_ptr<Env> Create(const Config& params) {
    const std::string fault =
        params.GetChoice("fault", {"none", "create_throws_std", "create_throws_int", "create_null",
                                   "step_throws_std", "step_throws_int"});
    if (fault == "create_throws_std") throw std::runtime_error("no graphics card");
    if (fault == "create_throws_int") throw 42;
    if (fault == "create_null") return nullptr;
    return std::make_unique<ToyEnv>(fault);
  }

  explicit ToyEnv(std::string fault) : fault_(std::move(fault)) {
    spec_.control_hz = 10.0;
    spec_.max_steps = 3;
  }

  const EnvSpec& spec() const override { return spec_; }
  void Reset(std::uint64_t) override {}
  StepResult Step(std::span<const float>) override {
    if (fault_ == "step_throws_std") throw std::out_of_range("joint 7");
    if (fault_ == "step_throws_int") throw 42;
    return {.reward = 0.5};
  }
  void Observe(ObsBuffers) override {}
  void Render(RgbImage*) override {}

 private:
  std::string fault_;
  EnvSpec spec_;
};

}  // namespace dp_bench::broken
