// The binary interface of env and dataset plugins. See README.md.
#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"
#include "dp_bench/dataset_writer.h"
#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "dp_bench/hosted_env.h"
#include "dp_bench/plugin.h"
#include "dp_bench/random.h"
#include "dp_bench/spec.h"
#include "dp_bench/stats.h"
#include "layout.h"

using namespace dp_bench;

namespace {

void PrintEntry() {
  DPB_TYPE(PluginHeader);
  DPB_FIELD(PluginHeader, magic);
  DPB_FIELD(PluginHeader, abi_version);
  DPB_FIELD(PluginHeader, kind);
  DPB_FIELD(PluginHeader, build_id);
  DPB_FIELD(PluginHeader, name);
  DPB_FIELD(PluginHeader, version);
  DPB_TYPE(PluginEntry<Env>);
  DPB_FIELD(PluginEntry<Env>, functions);
  DPB_FIELD(PluginTraits<Env>::Functions, describe);
  DPB_FIELD(PluginTraits<Env>::Functions, create);
  DPB_TYPE(PluginEntry<Dataset>);
  DPB_FIELD(PluginTraits<Dataset>::Functions, create);
  DPB_TYPE(PluginEntry<DatasetWriter>);
  DPB_FIELD(PluginTraits<DatasetWriter>::Functions, create);
}

void PrintSpecs() {
  DPB_TYPE(KeySpec);
  DPB_FIELD(KeySpec, name);
  DPB_FIELD(KeySpec, type);
  DPB_FIELD(KeySpec, shape);
  DPB_FIELD(KeySpec, dtype);
  DPB_TYPE(ShapeMeta);
  DPB_FIELD(ShapeMeta, obs);
  DPB_FIELD(ShapeMeta, action);
  DPB_TYPE(Horizons);
  DPB_FIELD(Horizons, horizon);
  DPB_FIELD(Horizons, n_obs_steps);
  DPB_FIELD(Horizons, n_action_steps);
  DPB_FIELD(Horizons, drop_n_last_frames);
  DPB_FIELD(Horizons, temporal_ensemble_coeff);
  DPB_TYPE(PolicySpec);
  DPB_FIELD(PolicySpec, shape_meta);
  DPB_FIELD(PolicySpec, horizons);
  DPB_FIELD(PolicySpec, instruction);
  DPB_FIELD(PolicySpec, action_low);
  DPB_FIELD(PolicySpec, action_high);
  DPB_TYPE(KeyStats);
  DPB_FIELD(KeyStats, min);
  DPB_FIELD(KeyStats, max);
  DPB_FIELD(KeyStats, mean);
  DPB_FIELD(KeyStats, std);
  DPB_FIELD(KeyStats, count);
  DPB_VALUE(KeyType::kTask);
  DPB_VALUE(DType::kFloat64);
}

// What an env implements is protected.
struct EnvFunctions : Env {
  using Env::DoAct;
  using Env::DoBeginExpert;
  using Env::DoGetCamera;
  using Env::DoGetState;
  using Env::DoMarks;
  using Env::DoObserve;
  using Env::DoPointerAction;
  using Env::DoRender;
  using Env::DoRenderCamera;
  using Env::DoReset;
  using Env::DoSetState;
  using Env::DoStep;
};

void PrintEnv() {
  DPB_TYPE(MetricSpec);
  DPB_FIELD(MetricSpec, name);
  DPB_FIELD(MetricSpec, aggregate);
  DPB_TYPE(PerturbationSpec);
  DPB_FIELD(PerturbationSpec, name);
  DPB_FIELD(PerturbationSpec, low);
  DPB_FIELD(PerturbationSpec, high);
  DPB_FIELD(PerturbationSpec, strength);
  DPB_FIELD(PerturbationSpec, is_visual);
  DPB_TYPE(EnvAbilities);
  DPB_FIELD(EnvAbilities, state_size);
  DPB_FIELD(EnvAbilities, has_expert);
  DPB_FIELD(EnvAbilities, has_pointer_control);
  DPB_FIELD(EnvAbilities, cameras);
  DPB_FIELD(EnvAbilities, n_marks);
  DPB_TYPE(EnvSpec);
  DPB_FIELD(EnvSpec, shape_meta);
  DPB_FIELD(EnvSpec, action_low);
  DPB_FIELD(EnvSpec, action_high);
  DPB_FIELD(EnvSpec, control_hz);
  DPB_FIELD(EnvSpec, max_steps);
  DPB_FIELD(EnvSpec, metrics);
  DPB_FIELD(EnvSpec, moves_without_actions);
  DPB_FIELD(EnvSpec, tasks);
  DPB_FIELD(EnvSpec, obs_modes);
  DPB_FIELD(EnvSpec, instruction);
  DPB_FIELD(EnvSpec, perturbations);
  DPB_FIELD(EnvSpec, abilities);
  DPB_TYPE(StepResult);
  DPB_FIELD(StepResult, reward);
  DPB_FIELD(StepResult, terminated);
  DPB_FIELD(StepResult, success);
  DPB_FIELD(StepResult, metrics);
  DPB_TYPE(RgbImage);
  DPB_FIELD(RgbImage, width);
  DPB_FIELD(RgbImage, height);
  DPB_FIELD(RgbImage, pixels);
  DPB_TYPE(HostedEnv);
  DPB_FIELD(HostedEnv, name);
  DPB_FIELD(HostedEnv, command);
  DPB_FIELD(HostedEnv, request);
  DPB_FIELD(HostedEnv, files);
  DPB_FIELD(HostedEnv, limits);
  DPB_TYPE(EnvLimits);
  DPB_FIELD(EnvLimits, step_timeout);
  DPB_FIELD(EnvLimits, reset_timeout);
  DPB_FIELD(EnvLimits, memory_limit_mb);
  DPB_TYPE(CameraParameters);
  DPB_FIELD(CameraParameters, name);
  DPB_FIELD(CameraParameters, fx);
  DPB_FIELD(CameraParameters, fy);
  DPB_FIELD(CameraParameters, cx);
  DPB_FIELD(CameraParameters, cy);
  DPB_FIELD(CameraParameters, camera_to_world);
  DPB_TYPE(ObsWriter);
  DPB_TYPE(Env);
  DPB_VIRTUAL(EnvFunctions, DoReset);
  DPB_VIRTUAL(EnvFunctions, DoStep);
  DPB_VIRTUAL(EnvFunctions, DoObserve);
  DPB_VIRTUAL(EnvFunctions, DoRender);
  DPB_VIRTUAL(EnvFunctions, DoGetState);
  DPB_VIRTUAL(EnvFunctions, DoSetState);
  DPB_VIRTUAL(EnvFunctions, DoBeginExpert);
  DPB_VIRTUAL(EnvFunctions, DoAct);
  DPB_VIRTUAL(EnvFunctions, DoPointerAction);
  DPB_VIRTUAL(EnvFunctions, DoGetCamera);
  DPB_VIRTUAL(EnvFunctions, DoRenderCamera);
  DPB_VIRTUAL(EnvFunctions, DoMarks);
}

void PrintDataset() {
  DPB_TYPE(DatasetSpec);
  DPB_FIELD(DatasetSpec, keys);
  DPB_FIELD(DatasetSpec, fps);
  DPB_TYPE(Dataset);
  DPB_VIRTUAL(Dataset, spec);
  DPB_VIRTUAL(Dataset, episode_ends);
  DPB_VIRTUAL(Dataset, Task);
  DPB_VIRTUAL(Dataset, FeatureName);
  DPB_VIRTUAL(Dataset, ChannelNames);
  DPB_VIRTUAL(Dataset, RecordedRange);
  DPB_TYPE(StatedRange);
  DPB_FIELD(StatedRange, min);
  DPB_FIELD(StatedRange, max);
  DPB_TYPE(EpisodeHead);
  DPB_FIELD(EpisodeHead, n_steps);
  DPB_FIELD(EpisodeHead, task);
  DPB_TYPE(DatasetWriter);
  DPB_VIRTUAL(DatasetWriter, n_episodes);
  DPB_VIRTUAL(DatasetWriter, BeginEpisode);
  DPB_VIRTUAL(DatasetWriter, Append);
  DPB_VIRTUAL(DatasetWriter, Finish);
  DPB_VIRTUAL(DatasetWriter, Notes);
}

void PrintTools() {
  DPB_TYPE(Array);
  DPB_TYPE(Config);
  DPB_TYPE(KeyMeaning);
  DPB_FIELD(KeyMeaning, text);
  DPB_FIELD(KeyMeaning, reader);
  DPB_TYPE(Error);
  DPB_VALUE(ErrorCode::kUnavailable);
  DPB_TYPE(RandomStream);
  DPB_VALUE(StreamId::kDropout);
}

}  // namespace

int main() {
  DPB_VALUE(kAbiVersion);
  PrintEntry();
  PrintSpecs();
  PrintEnv();
  PrintDataset();
  PrintTools();
}
