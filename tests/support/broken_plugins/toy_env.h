// The smallest env, for plugins with a fault elsewhere. `fault` says what it throws, and where.
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
  static EnvSpec Describe(const Config& params) {
    const std::string fault = ReadFault(params);
    if (fault == "describe_throws_std") throw std::runtime_error("no model file");
    EnvSpec spec;
    spec.shape_meta.obs = {{.name = "position", .shape = {1}}};
    spec.shape_meta.action = {.name = "action", .shape = {1}};
    spec.action_low = {-1.0F};
    spec.action_high = {1.0F};
    spec.control_hz = 10.0;
    spec.max_steps = 3;
    spec.abilities.has_expert = fault == "false_ability";
    return spec;
  }

  static std::unique_ptr<Env> Create(const Config& params) {
    const std::string fault = ReadFault(params);
    if (fault == "create_throws_std") throw std::runtime_error("no graphics card");
    if (fault == "create_throws_int") throw 42;
    if (fault == "create_null") return nullptr;
    return std::make_unique<ToyEnv>(params);
  }

  explicit ToyEnv(const Config& params) : Env(OwnSpec(params)), fault_(ReadFault(params)) {}

 private:
  void DoReset(std::uint64_t) override {}
  StepResult DoStep(std::span<const float>) override {
    if (fault_ == "step_throws_std") throw std::out_of_range("joint 7");
    if (fault_ == "step_throws_int") throw 42;
    return {.reward = 0.5};
  }
  void DoObserve(const ObsWriter& obs) override { obs.Buffer<float>("position")[0] = 0.0F; }
  void DoRender(RgbImage*) override {}

  static EnvSpec OwnSpec(const Config& params) {
    EnvSpec spec = Describe(params);
    if (ReadFault(params) == "described_otherwise") spec.max_steps = 4;
    return spec;
  }

  static std::string ReadFault(const Config& params) {
    return params.GetChoice("fault", {"none", "describe_throws_std", "create_throws_std",
                                      "create_throws_int", "create_null", "false_ability",
                                      "described_otherwise", "step_throws_std", "step_throws_int"});
  }

  std::string fault_;
};

}  // namespace dp_bench::broken
