#include "profile/recorded_work.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "policy/stage_recorder.h"

namespace dp_bench::profile {

WorkTotal RecordedWork::Mean() const {
  WorkTotal mean = SumOf(ops);
  for (double* value : {&mean.flops, &mean.product_us, &mean.self_us})
    *value /= std::max(1, n_repetitions);
  return mean;
}

RecordedWork RecordWork(c10::Device device, int n, const std::string& scope,
                        std::vector<OpEvent>* events, const std::function<void()>& work) {
  std::vector<OpEvent> recorded;
  {
    OpRecorder recorder(device);
    for (int i = 0; i < n; ++i) work();
    recorded = recorder.TakeEvents();
  }
  RecordedWork result = {.n_repetitions = n, .ops = SummarizeOps(recorded, scope)};
  double start_us = 0.0;
  for (const OpEvent& event : *events) start_us = std::max(start_us, event.end_us + 1e3);
  const auto first = static_cast<int>(events->size());
  for (OpEvent& event : recorded) {
    event.begin_us += start_us;
    event.end_us += start_us;
    if (event.parent >= 0) event.parent += first;
    events->push_back(std::move(event));
  }
  return result;
}

double CountFlop(c10::Device device, const std::function<void()>& call) {
  const int n_threads = at::get_num_threads();
  at::set_num_threads(1);
  std::vector<OpEvent> events;
  double flop = 0.0;
  {
    const policy::StageRecorder one_by_one;  // a graph would start no operators
    OpRecorder recorder(device);
    call();
    events = recorder.TakeEvents();
  }
  at::set_num_threads(n_threads);
  for (const OpEvent& event : events) flop += event.flops;
  return flop;
}

}  // namespace dp_bench::profile
