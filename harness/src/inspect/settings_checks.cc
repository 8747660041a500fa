// See settings_checks.h.
#include "inspect/settings_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "inspect/probe.h"
#include "train/optimizer.h"
#include "train/train_config.h"

namespace dp_bench::inspect {
namespace {

constexpr double kMaxEarlyShare = 0.05;
constexpr std::int64_t kMinRowsForBatchNorm = 32;

}  // namespace

TrainingLength LengthOf(const Config& config, std::int64_t n_sequences) {
  const auto training = train::TrainingConfig::FromConfig(config.Sub("training"));
  const auto loader = train::DataLoaderConfig::FromConfig(config.Sub("dataloader"), true);
  std::int64_t batches = (n_sequences + loader.batch_size - 1) / loader.batch_size;
  if (training.max_train_steps) batches = std::min(batches, *training.max_train_steps);
  const std::int64_t every = training.gradient_accumulate_every;
  return {.n_sequences = n_sequences,
          .batch_size = loader.batch_size,
          .n_updates = training.num_epochs * ((batches + every - 1) / every)};
}

Finding CheckWarmup(const Config& config, const TrainingLength& length) {
  const Finding hypothesis = {.id = "settings.warmup",
                              .claim = "the learning rate warms up for most of the training",
                              .advice = "fewer warm-up steps, or more epochs",
                              .config_key = "training.lr_warmup_steps"};
  const auto training = train::TrainingConfig::FromConfig(config.Sub("training"));
  const std::int64_t warmup = training.lr_schedule.num_warmup_steps;
  return Decide(hypothesis, 2 * warmup > length.n_updates,
                fmt::format("{} of {} updates", warmup, length.n_updates));
}

Finding CheckEma(const train::EmaConfig& config, std::int64_t n_updates) {
  const Finding hypothesis = {.id = "settings.ema",
                              .claim = "the averaged weights still contain early weights",
                              .advice =
                                  "a smaller ema.max_value, or a longer training; these are "
                                  "the weights that are evaluated",
                              .config_key = "ema.max_value"};
  double early = 1.0;
  for (std::int64_t n = n_updates / 10; n < n_updates; ++n) early *= train::EmaDecay(config, n);
  return Decide(
      hypothesis, early > kMaxEarlyShare,
      fmt::format("{:.2g} % of their weight is from the first tenth of {} updates, decay {:.6g} "
                  "at the end",
                  100.0 * early, n_updates, train::EmaDecay(config, n_updates)));
}

Finding CheckBatchSize(const TrainingLength& length) {
  const Finding hypothesis = {.id = "settings.batch_size",
                              .claim = "the data do not fill one batch",
                              .advice = "a smaller batch, or more demonstrations",
                              .config_key = "dataloader.batch_size"};
  return Decide(hypothesis, length.n_sequences < length.batch_size,
                fmt::format("{} sequences, batches of {}", length.n_sequences, length.batch_size));
}

Finding CheckBatchNorm(const torch::nn::Module& module, std::int64_t batch_size) {
  const Finding hypothesis = {.id = "settings.batch_norm",
                              .claim = "batch norms see too few rows",
                              .advice = "use_group_norm=true, as diffusion_policy does",
                              .config_key = "policy.params.obs_encoder.use_group_norm",
                              .certainty = Certainty::kLikely};
  std::int64_t n_norms = 0;
  for (const auto& buffer : module.named_buffers()) {
    n_norms += buffer.key().ends_with("running_mean");
  }
  return Decide(hypothesis, n_norms > 0 && batch_size < kMinRowsForBatchNorm,
                fmt::format("{} batch norms, batches of {}", n_norms, batch_size));
}

Finding CheckFrozen(const Config& config, Policy& policy) {
  const Finding hypothesis = {.id = "settings.frozen_at_random",
                              .claim = "parts of the network keep their random initial weights",
                              .advice =
                                  "do not freeze them, or start from trained weights "
                                  "(training.init_checkpoint)",
                              .config_key = "optimizer.param_groups"};
  const auto training = train::TrainingConfig::FromConfig(config.Sub("training"));
  if (training.init_checkpoint) {
    return LeaveOpen(hypothesis, "the training starts from another training's weights");
  }
  train::FreezeParameters(policy.module(),
                          train::OptimizerConfig::FromConfig(config.Sub("optimizer")));
  std::set<std::string> parts;
  std::int64_t n_frozen = 0;
  for (const auto& parameter : policy.module().named_parameters()) {
    if (parameter.value().requires_grad()) continue;
    n_frozen += parameter.value().numel();
    parts.insert(PartOf(parameter.key()));
  }
  return Decide(hypothesis, n_frozen > 0,
                n_frozen == 0
                    ? "every parameter is trained"
                    : fmt::format("{} frozen values in {}", n_frozen, fmt::join(parts, ", ")));
}

Findings CheckSettings(const Config& config, Policy& policy, const TrainingLength& length) {
  Findings findings = {CheckWarmup(config, length), CheckBatchSize(length),
                       CheckBatchNorm(policy.module(), length.batch_size),
                       CheckFrozen(config, policy)};
  if (train::TrainingConfig::FromConfig(config.Sub("training")).use_ema) {
    findings.push_back(CheckEma(train::EmaConfig::FromConfig(config.Sub("ema")), length.n_updates));
  }
  return findings;
}

}  // namespace dp_bench::inspect
