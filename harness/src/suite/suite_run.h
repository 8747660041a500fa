// Runs the steps of a suite that are not done.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "suite/suite_steps.h"

namespace dp_bench::suite {

inline constexpr const char* kOutputFile = "output.txt";  // what a step printed, in its folder

enum class StepState {
  kWaiting,  // for a place, or for another step
  kRunning,
  kElsewhere,  // another process runs it
  kDone,
  kFailed,
  kImpossible,  // a step that it needs failed
};

/// The error with which a step ended, or else the last line that it printed.
std::string FailureOf(const SuiteStep& step);

/// Whether the step's product is complete, with the test seeds that it needs now.
bool IsDone(const SuiteStep& step);

struct SuiteRunOptions {
  int n_at_once = 1;
  const std::atomic<bool>& stop;
  /// A step became done or failed, or began.
  std::function<void(std::size_t step, const std::vector<StepState>& states)> changed;
};

struct SuiteRunReport {
  std::vector<StepState> states;
  int exit_code = 0;  // core::kExitInterrupted, or that of the first step that failed
};

/// Runs the steps in their order, up to `n_at_once` at a time; `is_known` are those whose results
/// another file has. Several processes, also of several machines with a common file system, may
/// work on one suite: each takes steps that no other one has, and waits at the end for those that
/// others still run. A failed step does not stop the others; what it printed is in output.txt of
/// its folder. After a stop signal, the running steps save their work; the same call continues
/// them.
SuiteRunReport RunSteps(std::span<const SuiteStep> steps, const std::vector<bool>& is_known,
                        const SuiteRunOptions& options);

}  // namespace dp_bench::suite
