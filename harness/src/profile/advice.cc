#include "profile/advice.h"

#include <fmt/format.h>

#include <algorithm>

namespace dp_bench::profile {
namespace {

// Above these thresholds a change is worth trying, not certain to help.
constexpr double kDataBound = 0.1;         // share of a step
constexpr double kFixedCosts = 0.3;        // share of a step
constexpr double kMemoryFull = 0.7;        // of the free memory
constexpr double kFasterProducts = 1.3;    // bfloat16 over float32
constexpr double kWorthFasterOnes = 0.25;  // share of a step in products
constexpr double kLowRate = 0.4;           // share of the machine's rate
constexpr std::int64_t kSmallBatch = 64;

double Percent(double share) { return 100.0 * share; }
double InMebibytes(double bytes) { return bytes / (1 << 20); }

void AdviseData(const TrainingFigures& f, std::vector<Advice>* advice) {
  if (f.data_share < kDataBound) return;
  if (f.num_workers < f.n_cores) {
    advice->push_back({"dataloader.num_workers", std::to_string(f.num_workers + 1),
                       fmt::format("{:.0f} % of a step waits for data, with {} of {} cores",
                                   Percent(f.data_share), f.num_workers, f.n_cores)});
    return;
  }
  advice->push_back({"dataset.params.memory_limit_mb", "more",
                     fmt::format("{:.0f} % of a step waits for data although all {} cores load; "
                                 "images kept in memory need no decompression",
                                 Percent(f.data_share), f.n_cores)});
}

void AdviseMemory(const TrainingFigures& f, std::vector<Advice>* advice) {
  advice->push_back(
      {"dataloader.batch_size", std::to_string(std::max<std::int64_t>(1, f.batch_size / 2)),
       fmt::format("a step of batch size {} takes {:.0f} MiB, {:.0f} MiB are free; with twice the "
                   "training.gradient_accumulate_every, an update has as many samples. See also "
                   "mixed_precision, gradient_checkpointing and resize_shape",
                   f.batch_size, InMebibytes(f.needed_bytes), InMebibytes(f.available_bytes))});
}

void AdvisePrecision(const TrainingFigures& f, std::vector<Advice>* advice) {
  if (!f.is_float32 || f.float32_limit <= 0.0 || f.product_share < kWorthFasterOnes) return;
  const double gain = f.bfloat16_limit / f.float32_limit;
  if (gain < kFasterProducts) return;
  advice->push_back({"training.mixed_precision", "bf16",
                     fmt::format("products take {:.0f} % of a step, and in bfloat16 this machine "
                                 "computes them at {:.1f} times the rate",
                                 Percent(f.product_share), gain)});
}

void AdviseBatchSize(const TrainingFigures& f, std::vector<Advice>* advice) {
  const std::string doubled = std::to_string(2 * f.batch_size);
  if (f.fixed_share >= kFixedCosts) {
    advice->push_back(
        {"dataloader.batch_size", doubled,
         fmt::format("optimizer and EMA take {:.0f} % of a step, whatever its batch size",
                     Percent(f.fixed_share))});
  } else if (f.batch_size <= kSmallBatch && f.flops > 0.0 && f.flops < kLowRate * f.float32_limit) {
    advice->push_back(
        {"dataloader.batch_size", doubled,
         fmt::format("with batch size {} a step reaches {:.1f} GFLOP/s, {:.0f} % of this machine's "
                     "{:.1f}",
                     f.batch_size, f.flops / 1e9, Percent(f.flops / f.float32_limit),
                     f.float32_limit / 1e9)});
  }
}

}  // namespace

bool TrainingFigures::is_memory_short() const {
  return available_bytes > 0.0 && needed_bytes >= kMemoryFull * available_bytes;
}

std::vector<Advice> AdviseTraining(const TrainingFigures& figures) {
  std::vector<Advice> advice;
  AdviseData(figures, &advice);
  if (figures.is_memory_short()) AdviseMemory(figures, &advice);
  AdvisePrecision(figures, &advice);
  if (!figures.is_memory_short()) AdviseBatchSize(figures, &advice);
  return advice;
}

}  // namespace dp_bench::profile
