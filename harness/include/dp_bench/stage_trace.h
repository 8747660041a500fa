// Records the tensors of a policy's data flow while it runs: their shapes for `dp_bench inspect`,
// their values for `dp_bench diagnose`. Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <string_view>

#include "dp_bench/export.h"

namespace dp_bench {

/// Records `tensor` as the next stage if the harness records the stages of this thread. Otherwise
/// it costs one branch.
DPB_API void TraceStage(std::string_view name, const torch::Tensor& tensor);

/// Whether the harness records the stages of this thread. Ask first if the name or view of a stage
/// must be made for the call.
DPB_API bool IsTracingStages();

}  // namespace dp_bench
