// The tensors of a policy's data flow, noted while it runs: their shapes, which `dp_bench inspect`
// prints, and for `dp_bench diagnose` their values. Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <string_view>

#include "dp_bench/export.h"

namespace dp_bench {

/// Notes `tensor` as the next stage. Nothing happens (one branch) unless the harness records the
/// stages of this thread.
DPB_API void TraceStage(std::string_view name, const torch::Tensor& tensor);

/// Whether the harness records the stages of this thread. For stages whose name or view must be
/// made first.
DPB_API bool IsTracingStages();

}  // namespace dp_bench
