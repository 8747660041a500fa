// The library's only export.
#include "dp_bench/plugin.h"

#include "dp_bench/policy.h"
#include "rgbd_fusion_policy.h"

namespace {

std::unique_ptr<dp_bench::Policy> Create(const dp_bench::Config& params,
                                         const dp_bench::PolicySpec& spec) {
  return dp_bench::rgbd_fusion::MakePolicy(params, spec);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Policy, "rgbd_fusion", "1.0.0", &Create)
