// How long the named stages of a policy take, without a word on the operators in them.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dp_bench::rollout {

/// The stages that diffusion policies name (plugins/policies/common/diffusion_policy.cc), as
/// RECORD_USER_SCOPE does for any policy that wants to be seen in parts.
inline constexpr const char* kObsEncodingScope = "observation encoding";
inline constexpr const char* kConditioningScope = "conditioning";
inline constexpr const char* kDenoisingStepScope = "denoising step";

/// Times the scopes of its thread while it lives: two clock reads each, nothing for operators. A
/// scope ends when `device` has done its work, and begins when it has done that of the one before.
/// Timers do not nest on a thread.
class ScopeTimer {
 public:
  explicit ScopeTimer(c10::Device device = c10::kCPU);
  ScopeTimer(const ScopeTimer&) = delete;
  ScopeTimer& operator=(const ScopeTimer&) = delete;
  ~ScopeTimer();

  /// [s] of each call, by the name of the scope.
  const std::map<std::string, std::vector<double>>& seconds() const { return seconds_; }

 private:
  static std::unique_ptr<at::ObserverContext> Start(const at::RecordFunction& call);
  static void End(const at::RecordFunction& call, at::ObserverContext* context);

  c10::Device device_;
  std::map<std::string, std::vector<double>> seconds_;
  at::CallbackHandle callback_;
};

}  // namespace dp_bench::rollout
