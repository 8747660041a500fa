// Times the named stages of a policy, but not the operators in them.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dp_bench::planner {

/// A stage that diffusion policies mark with RECORD_USER_SCOPE (policy/sampling.cc). Any policy can
/// mark its stages.
inline constexpr const char* kDenoisingStepScope = "denoising step";

/// Times the scopes of its thread while it exists. A scope costs two clock reads, an operator
/// nothing. A scope ends when `device` has finished its work, and begins when `device` has finished
/// the work before it. Timers do not nest on a thread.
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

}  // namespace dp_bench::planner
