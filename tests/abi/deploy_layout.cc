// The binary interface of dp_bench_deploy, for programs of users. See README.md.
#include "dp_bench/deploy.h"
#include "layout.h"

using namespace dp_bench;

int main() {
  DPB_TYPE(Dims);
  DPB_TYPE(ObsView);
  DPB_FIELD(ObsView, key);
  DPB_FIELD(ObsView, data);
  DPB_FIELD(ObsView, dtype);
  DPB_FIELD(ObsView, shape);
  DPB_FIELD(ObsView, strides);
  DPB_TYPE(ControllerOptions);
  DPB_FIELD(ControllerOptions, weights);
  DPB_FIELD(ControllerOptions, device);
  DPB_FIELD(ControllerOptions, plugin_dirs);
  DPB_FIELD(ControllerOptions, latency_steps);
  DPB_FIELD(ControllerOptions, deadline_s);
  DPB_FIELD(ControllerOptions, micro_batch);
  DPB_TYPE(ActTiming);
  DPB_FIELD(ActTiming, act_s);
  DPB_FIELD(ActTiming, plan_s);
  DPB_FIELD(ActTiming, is_stale);
  DPB_FIELD(ActTiming, is_late);
  DPB_FIELD(ActTiming, has_missed_deadline);
  DPB_TYPE(ActCounts);
  DPB_FIELD(ActCounts, n_acts);
  DPB_FIELD(ActCounts, n_plans);
  DPB_FIELD(ActCounts, n_failed_plans);
  DPB_FIELD(ActCounts, n_missed_deadlines);
  DPB_TYPE(Controller);
}
