// Some repetitions of a piece of work under an OpRecorder.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

#include "profile/op_recorder.h"

namespace dp_bench::profile {

/// The operators of some recorded repetitions of a piece of work, summed.
struct RecordedWork {
  int n_repetitions = 0;
  std::vector<OpTotal> ops;  // the largest self time first

  /// Per repetition.
  WorkTotal Mean() const;
};

/// Runs `work` n times under a recorder and appends its events to `events`. The operators within
/// `scope`, which `work` opens, count.
RecordedWork RecordWork(c10::Device device, int n, const std::string& scope,
                        std::vector<OpEvent>* events, const std::function<void()>& work);

/// Floating-point operations of the products of one call, as ProductFlops counts them. The call
/// runs on one thread: with several, a plan's rows are divided between them, and a recorder sees
/// only those of its own thread.
double CountFlop(c10::Device device, const std::function<void()>& call);

}  // namespace dp_bench::profile
