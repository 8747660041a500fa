#include "experiment/auto_precision.h"

#include <fmt/format.h>

#include "core/console.h"
#include "core/device.h"
#include "train/train_config.h"

namespace dp_bench::experiment {

void ResolveAutoPrecision(ExperimentOptions* options, core::Communicator& ranks) {
  const Experiment experiment(*options);
  if (!train::IsAutoPrecision(experiment.config().Sub("training"))) return;
  const bool is_slow = !core::HasFastBfloat16(experiment.device());
  const bool is_slow_somewhere = ranks.AllReduceMax(is_slow ? 1 : 0) != 0;
  const char* precision = is_slow_somewhere ? "no" : "bf16";
  options->overrides.push_back(fmt::format("training.mixed_precision={}", precision));
  if (!ranks.is_root()) return;
  core::LogInfo(fmt::format("training.mixed_precision: {}, because {} fast bfloat16 products",
                            precision, is_slow_somewhere ? "not every device has" : "there are"));
}

}  // namespace dp_bench::experiment
