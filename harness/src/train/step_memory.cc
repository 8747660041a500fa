#include "train/step_memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "dp_bench/error.h"
#include "policy/guarded_policy.h"
#include "policy/kernels/loop_tensors.h"
#include "train/batches.h"

namespace dp_bench::train {

namespace {

constexpr std::int64_t kMeasuredBytes = 512 << 20;  // of the larger step, roughly

std::int64_t ByteSize(const data::HostBatch& batch) {
  std::size_t n = batch.action.byte_size() + batch.is_pad.byte_size();
  for (const auto& [name, array] : batch.obs) n += array.byte_size();
  return static_cast<std::int64_t>(n);
}

// Makes the backward pass add to existing gradients instead of creating them, so that the peak
// measures activations. Training drops the gradients after each step, so it may need less by their
// size.
void ProvideGradients(torch::nn::Module& module) {
  for (torch::Tensor& parameter : module.parameters()) {
    if (!parameter.requires_grad() || parameter.grad().defined()) continue;
    parameter.mutable_grad() = torch::zeros_like(parameter);
  }
}

void Append(const torch::nn::Module& parent, int depth, int n_levels,
            std::vector<ModuleSize>* rows) {
  if (depth == n_levels) return;
  const auto children = parent.named_children();
  if (children.is_empty() && depth > 0)
    return;  // the weight and bias of a layer get no separate rows
  for (const auto& parameter : parent.named_parameters(/*recurse=*/false)) {
    rows->push_back({parameter.key(), depth, parameter.value().numel()});
  }
  for (const auto& child : children) {
    std::string name = child.key();
    const torch::nn::Module* module = child.value().get();
    std::shared_ptr<torch::nn::Module> only;
    while (module->children().size() == 1 && module->parameters(/*recurse=*/false).empty()) {
      const auto below = module->named_children();
      name += "." + below.front().key();
      only = below.front().value();
      module = only.get();
    }
    const std::int64_t n = NumParameters(*module);
    if (n == 0) continue;
    rows->push_back({std::move(name), depth, n});
    Append(*module, depth + 1, n_levels, rows);
  }
}

}  // namespace

HeldMemory MeasureHeldMemory(const torch::nn::Module& module, const Config& config) {
  HeldMemory memory;
  for (const torch::Tensor& parameter : module.parameters()) {
    const auto n = static_cast<std::int64_t>(parameter.nbytes());
    memory.parameters += n;
    if (parameter.requires_grad()) memory.gradients += n;
  }
  for (const torch::Tensor& buffer : module.buffers()) {
    memory.parameters += static_cast<std::int64_t>(buffer.nbytes());
  }
  const auto optimizer = OptimizerConfig::FromConfig(config.Sub("optimizer"));
  memory.optimizer = std::ssize(optimizer.StateNames()) * memory.gradients;
  if (TrainingConfig::FromConfig(config.Sub("training")).use_ema) memory.ema = memory.parameters;
  if (CheckpointConfig::FromConfig(config.Sub("checkpoint")).background) {
    memory.checkpoint = memory.parameters + memory.optimizer + memory.ema;
  }
  return memory;
}

StepMemory MeasureStepMemory(Policy& policy, std::int64_t batch_size, MixedPrecision precision) {
  data::HostBatch host = SyntheticBatch(policy, batch_size);
  const Batch batch = ToBatch(host, policy.spec().shape_meta, torch::kCPU);
  NoiseSource noise = BatchNoise(/*seed=*/0, NoisePurpose::kTraining, /*number=*/0, batch_size);
  policy.module().train();
  ProvideGradients(policy.module());

  const MemoryPeak memory;
  torch::Tensor loss;
  {
    const policy::AutocastGuard autocast(torch::kCPU, ProductType(precision));
    loss = policy.ComputeLoss(batch, noise).loss;
  }
  plugin::ComputeGradients(policy, loss);
  return {.batch_size = batch_size, .batch = ByteSize(host), .activations = memory.peak()};
}

StepMemory EstimateStepMemory(const StepMemory& a, const StepMemory& b, std::int64_t batch_size) {
  DPB_ASSERT(a.batch_size != b.batch_size);
  const auto line = [&](std::int64_t at_a, std::int64_t at_b) {
    const double slope =
        static_cast<double>(at_b - at_a) / static_cast<double>(b.batch_size - a.batch_size);
    return at_a + static_cast<std::int64_t>(slope * static_cast<double>(batch_size - a.batch_size));
  };
  return {.batch_size = batch_size,
          .batch = line(a.batch, b.batch),
          .activations = line(a.activations, b.activations),
          .is_estimated = true};
}

StepMemoryModel::StepMemoryModel(Policy& policy, MixedPrecision precision)
    : policy_(policy), precision_(precision) {
  const auto measure = [&](std::int64_t n) { return MeasureStepMemory(policy, n, precision); };
  const StepMemory one_row = measure(1);
  const std::int64_t per_row = measure(2).total() - one_row.total();
  std::int64_t batch_size = 32;
  while (batch_size > 2 && 2 * batch_size * per_row > kMeasuredBytes) batch_size /= 2;
  measured_ = {measure(batch_size), measure(2 * batch_size)};
}

StepMemory StepMemoryModel::At(std::int64_t batch_size) const {
  const auto known = std::ranges::find(measured_, batch_size, &StepMemory::batch_size);
  if (known != measured_.end()) return *known;
  if (batch_size < measured_[1].batch_size) {
    return MeasureStepMemory(policy_, batch_size, precision_);
  }
  return EstimateStepMemory(measured_[0], measured_[1], batch_size);
}

class MemoryPeak::Counter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, std::int64_t alloc_size, std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/, c10::Device /*device*/) override {
    current_ += alloc_size;  // negative if memory is freed
    peak_ = std::max(peak_, current_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t current() const { return current_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t current_ = 0;
  std::int64_t peak_ = 0;
};

MemoryPeak::MemoryPeak()
    : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

MemoryPeak::~MemoryPeak() = default;

std::int64_t MemoryPeak::current() const { return counter_->current(); }

std::int64_t MemoryPeak::peak() const { return counter_->peak(); }

std::vector<ModuleSize> ModuleSizes(const torch::nn::Module& root, int n_levels) {
  std::vector<ModuleSize> rows;
  Append(root, /*depth=*/0, n_levels, &rows);
  return rows;
}

std::int64_t NumParameters(const torch::nn::Module& module) {
  std::int64_t n = 0;
  for (const torch::Tensor& parameter : module.parameters()) n += parameter.numel();
  return n;
}

}  // namespace dp_bench::train
