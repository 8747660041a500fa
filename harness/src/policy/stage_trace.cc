// See stage_trace.h and stage_recorder.h. The recorder of a thread lives in this library: plugins
// call in here, so that they and the program see the same one.
#include "dp_bench/stage_trace.h"

#include <utility>

#include "dp_bench/error.h"
#include "policy/stage_recorder.h"

namespace dp_bench {
namespace {

thread_local policy::StageRecorder* current_recorder = nullptr;

}  // namespace

void TraceStage(std::string_view name, const torch::Tensor& tensor) {
  if (current_recorder == nullptr) return;
  const std::string_view dtype = c10::getDtypeNames(tensor.scalar_type()).first;
  current_recorder->stages_.push_back(
      {std::string(name), tensor.sizes().vec(), std::string(dtype)});
  if (current_recorder->observer_) current_recorder->observer_(name, tensor);
}

bool IsTracingStages() { return current_recorder != nullptr; }

namespace policy {

StageRecorder::StageRecorder(Observer observer) : observer_(std::move(observer)) {
  DPB_ASSERT(current_recorder == nullptr);
  current_recorder = this;
}

StageRecorder::~StageRecorder() { current_recorder = nullptr; }

}  // namespace policy
}  // namespace dp_bench
