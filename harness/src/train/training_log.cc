// Lines and points behind train/training_log.h.
#include "train/training_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "run/run_files.h"

namespace dp_bench::train {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kEventFolder = "tensorboard";
constexpr const char* kStepKey = "global_step";
constexpr const char* kParamNormKey = "param_norm";

OrderedJson LineOf(const TrainState& state, const TrainStepResult& step,
                   const std::map<std::string, double>& metrics) {
  OrderedJson line = {{"train_loss", step.loss},
                      {kStepKey, state.global_step},
                      {"epoch", state.epoch},
                      {"lr", step.lr}};
  if (step.grad_norm) line["grad_norm"] = *step.grad_norm;
  for (const auto& [name, value] : step.parts) line["train_" + name] = value;
  for (const auto& [name, value] : metrics) line[name] = value;
  return line;
}

/// The tag in TensorBoard of a value in the log.
std::string TagOf(const std::string& name) {
  const bool is_of_training =
      name == "lr" || name == "grad_norm" || name == "param_norm" || name == "train_loss";
  if (!is_of_training) return name;
  return name == "train_loss" ? "train/loss" : "train/" + name;
}

/// Memory of this process now [MiB].
double ResidentMemory() {
  double n_program_pages = 0.0;
  double n_resident_pages = 0.0;
  std::ifstream("/proc/self/statm") >> n_program_pages >> n_resident_pages;
  return n_resident_pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

bool IsHostArray(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == torch::kFloat32 &&
         tensor.is_non_overlapping_and_dense();
}

/// Of a host array.
std::span<const float> ValuesOf(const torch::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// Does not use LibTorch: a call for each of a policy's many small parameters takes longer than the
/// sum itself. Separate lanes keep the sums independent of each other.
double SumOfSquares(std::span<const float> values) {
  std::array<double, 8> sums{};
  const std::size_t n_in_lanes = values.size() / sums.size() * sums.size();
  for (std::size_t i = 0; i < n_in_lanes; i += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (const double value : values.subspan(n_in_lanes)) sums[0] += value * value;
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

TrainingLog::TrainingLog(TrainingLogParts parts, const TrainState& state)
    : config_(parts.config), groups_(std::move(parts.groups)), timer_(std::move(parts.now)) {
  if (!parts.is_written) return;
  json_.emplace(parts.run_folder / run::kTrainingLogFile, state.log_position);
  if (!config_.tensorboard) return;
  events_.emplace(parts.run_folder / kEventFolder, state.global_step);
  events_->Flush();
}

void TrainingLog::AddStep(const TrainState& state, const TrainStepResult& step) {
  is_point_due_ = is_point_due_ || state.global_step % config_.every == 0;
  Add(state, step, {});
}

void TrainingLog::AddEpochEnd(const TrainState& state, const TrainStepResult& step,
                              const std::map<std::string, double>& metrics) {
  is_point_due_ = true;
  Add(state, step, metrics);
}

void TrainingLog::Add(const TrainState& state, const TrainStepResult& step,
                      const std::map<std::string, double>& metrics) {
  if (!json_) return;
  OrderedJson line = LineOf(state, step, metrics);
  if (config_.ranges_every > 0 && state.global_step % config_.ranges_every == 0) {
    line[kParamNormKey] = ParamNorm();
  }
  json_->Append(line.dump());
  if (!events_) return;
  ++n_steps_;
  n_samples_ += step.n_rows;
  // if accumulating steps were points, an unlucky `every` would never show a gradient norm; a
  // skipped update of float16 has none, but its scale
  const bool is_update = step.grad_norm || step.parts.contains("grad_scale");
  if (!is_point_due_ || !is_update) return;

  for (const auto& [name, value] : line.items()) {
    if (name != kStepKey) events_->AddScalar(TagOf(name), value.get<double>(), state.global_step);
  }
  if (!line.contains(kParamNormKey)) {
    events_->AddScalar(TagOf(kParamNormKey), ParamNorm(), state.global_step);
  }
  AddPerformance(state.global_step);
  events_->Flush();
  is_point_due_ = false;
}

void TrainingLog::AddPerformance(std::int64_t global_step) {
  const auto add = [&](const char* name, double value) {
    events_->AddScalar(fmt::format("perf/{}", name), value, global_step);
  };
  const auto n_steps = static_cast<double>(n_steps_);
  const double total = timer_.total();
  if (total > 0.0) {  // the clock may not advance
    add("samples_per_second", static_cast<double>(n_samples_) / total);
    add("data_wait_share", timer_.seconds(StepPhase::kDataWait) / total);
  }
  add("step_time", total / n_steps);
  add("forward_time", timer_.seconds(StepPhase::kForward) / n_steps);
  add("backward_time", timer_.seconds(StepPhase::kBackward) / n_steps);
  add("optimizer_time", timer_.seconds(StepPhase::kOptimizer) / n_steps);
  add("ema_time", timer_.seconds(StepPhase::kEma) / n_steps);
  add("resident_memory_mib", ResidentMemory());
  timer_.Reset();
  n_steps_ = 0;
  n_samples_ = 0;
}

double TrainingLog::ParamNorm() const {
  const torch::NoGradGuard no_grad;
  double sum = 0.0;
  std::vector<torch::Tensor> others;
  for (const ParameterGroup& group : groups_) {
    for (const torch::Tensor& parameter : group.parameters) {
      if (IsHostArray(parameter)) {
        sum += SumOfSquares(ValuesOf(parameter));
      } else {
        others.push_back(parameter);
      }
    }
  }
  if (!others.empty()) {
    sum += torch::stack(torch::_foreach_norm(others, 2)).square().sum().item<double>();
  }
  return std::sqrt(sum);
}

void TrainingLog::AddImages(std::int64_t global_step,
                            const std::map<std::string, RgbImage>& images) {
  if (!events_) return;
  for (const auto& [tag, image] : images) events_->AddImage(tag, image, global_step);
}

std::int64_t TrainingLog::Flush() {
  if (events_) events_->Flush();
  return json_ ? json_->position() : 0;
}

void TrainingLog::Sync() const {
  if (events_) events_->Sync();
  if (json_) json_->Sync();
}

}  // namespace dp_bench::train
