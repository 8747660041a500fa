// The part of the deployment API that needs LibTorch: a policy from a checkpoint.

#include <optional>
#include <utility>

#include "control/batch_planner.h"
#include "control/control_loop.h"
#include "core/errors.h"
#include "dp_bench/deploy.h"
#include "planner/checkpoint_planner.h"
#include "planner/correction_file.h"
#include "policy/device.h"
#include "run/run_checkpoint.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

planner::Weights WeightsNamed(const std::string& name) {
  if (name == "ema") return planner::Weights::kEma;
  if (name == "model") return planner::Weights::kModel;
  throw UsageError("ControllerOptions::weights is '{}', expected ema or model", name);
}

torch::Device DeviceNamed(const std::string& name) {
  try {
    return policy::OpenDevice(name);
  } catch (Error& error) {
    error.AddContext("from ControllerOptions::device");
    throw;
  }
}

run::Checkpoint OpenCheckpoint(const fs::path& path) {
  if (!fs::is_directory(path)) {
    throw CheckpointError("'{}' is not a folder; expected that of a checkpoint or of a run",
                          path.string());
  }
  return run::Checkpoint::Open(run::FindCheckpoint(path).folder);
}

std::optional<int> MicroBatch(const ControllerOptions& options) {
  if (options.micro_batch > 0) return options.micro_batch;
  if (options.micro_batch == 0) return std::nullopt;
  throw UsageError("ControllerOptions::micro_batch is {}, expected 1 or more", options.micro_batch);
}

control::ChunkingConfig ReadChunking(const ControllerOptions& options) {
  const Config section = Config::FromJson(options.chunking, "ControllerOptions::chunking");
  control::ChunkingConfig chunking = control::ChunkingConfig::FromConfig(section);
  section.RejectUnread();
  if (chunking.delay > 0 || chunking.latency.is_random()) {
    throw UsageError(
        "ControllerOptions::chunking has a delay, expected none: a robot's plans take as long as "
        "they take, and latency_steps says how long that is");
  }
  chunking.delay = options.latency_steps;
  return chunking;
}

}  // namespace

struct Controller::Impl {
  Impl(const run::Checkpoint& checkpoint, torch::Device device, const ControllerOptions& options)
      : chunking(ReadChunking(options)),
        planner(checkpoint, WeightsNamed(options.weights), device, MicroBatch(options),
                options.plugin_dirs, chunking),
        spec(planner.spec()),
        loop(planner, spec.shape_meta, spec.horizons,
             {.latency_steps = options.latency_steps,
              .deadline_s = options.deadline_s,
              .chunking = chunking,
              .correction = planner::ReadCorrection(chunking, spec)}),
        batches(planner, spec.shape_meta, spec.horizons) {
    loop.WarmUp();
  }

  control::ChunkingConfig chunking;
  planner::CheckpointPlanner planner;
  PolicySpec spec;
  control::ControlLoop loop;
  control::BatchPlanner batches;
};

Controller Controller::Load(const fs::path& checkpoint, const ControllerOptions& options) {
  return Controller(
      std::make_unique<Impl>(OpenCheckpoint(checkpoint), DeviceNamed(options.device), options));
}

Controller::Controller(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Controller::Controller(Controller&&) noexcept = default;
Controller& Controller::operator=(Controller&&) noexcept = default;
Controller::~Controller() = default;

const PolicySpec& Controller::spec() const { return impl_->spec; }
const Config& Controller::config() const { return impl_->planner.config(); }

void Controller::Reset(std::uint64_t seed) { impl_->loop.Reset(seed); }

std::span<const float> Controller::Act(std::span<const ObsView> obs) {
  return impl_->loop.Act(obs);
}

void Controller::Predict(std::span<const ObsView> obs, std::span<const std::uint64_t> seeds,
                         std::span<float> chunks, std::span<const std::uint64_t> steps) {
  impl_->loop.AwaitPlanner();
  impl_->batches.Plan(obs, seeds, chunks, steps);
}

const ActTiming& Controller::timing() const { return impl_->loop.timing(); }
const ActCounts& Controller::counts() const { return impl_->loop.counts(); }

}  // namespace dp_bench
