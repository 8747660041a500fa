// See diffusion_policy.h.
#include "dp_bench/policy/networks/diffusion_policy.h"

#include <ATen/record_function.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/stage_trace.h"
#include "policy/device.h"
#include "policy/guarded_policy.h"
#include "policy/guidance.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/networks/loss_weights.h"
#include "policy/objectives/objective.h"
#include "policy/repeated_work.h"
#include "policy/row_groups.h"
#include "policy/sampling.h"

namespace dp_bench::policy {

using torch::Tensor;

namespace {

// Those of a pass that are there.
std::vector<Tensor*> TensorsOf(TrainingPass* pass) {
  std::vector<Tensor*> tensors = {&pass->noisy, &pass->times,       &pass->target,
                                  &pass->noise, &pass->row_weights, &pass->is_given};
  std::erase_if(tensors, [](const Tensor* tensor) { return !tensor->defined(); });
  return tensors;
}

}  // namespace

DenoiserChannels DenoiserChannels::FromConfig(const Config& params, const PolicySpec& spec,
                                              std::int64_t obs_feature_dim, std::int64_t task_dim) {
  const bool is_global = params.Get<bool>(
      "obs_as_global_cond", true,
      "observations condition the network; false: inpainting, the network denoises them together "
      "with the action, and the first n_obs_steps are put back before each denoising step");
  int max_prefix = 0;
  const ConfigKeys keys(params);
  keys("max_prefix", &max_prefix, 0, spec.horizons.n_action_steps - 1,
       "train with up to this many first actions of the chunk given, so that a plan can continue "
       "the actions that are executed while it is computed (training-time RTC); 0 = off");
  const std::int64_t action_dim = spec.shape_meta.action_dim();
  if (!is_global) {
    if (max_prefix == 0) return {.inpaints_obs = true, .sample = action_dim + obs_feature_dim};
    throw ConfigError("{}: expected 0 with obs_as_global_cond=false, found {}",
                      params.Where("max_prefix"), max_prefix);
  }
  return {.sample = action_dim + (max_prefix > 0 ? 1 : 0),
          .cond = obs_feature_dim,
          .task = task_dim,
          .max_prefix = max_prefix};
}

DiffusionPolicy::DiffusionPolicy(std::string name, const Config& params, const PolicySpec& spec,
                                 Model model)
    : PolicyBase(std::move(name), spec),
      objective_(MakeObjective(params)),
      mask_loss_for_padding_(params.Get<bool>(
          "do_mask_loss_for_padding", false,
          "leave steps before the start and after the end of an episode out of the loss")),
      chunk_weights_(ReadChunkWeights(params, spec.horizons.horizon)),
      model_(std::move(model)),
      denoising_(std::make_unique<RepeatedWork>()) {
  module().register_module("diffusion", model_.module);
  const bool is_checkpointing = params.Get<bool>(
      "gradient_checkpointing", false,
      "save memory in training: recompute the inside of each block in the backward pass");
  model_.obs_encoder->set_gradient_checkpointing(is_checkpointing);
  model_.denoiser->set_gradient_checkpointing(is_checkpointing);
  const bool is_graph = params.Get<bool>(
      "cuda_graph", false,
      "on a GPU, record the loss of the denoiser and its gradients as a CUDA graph and replay it "
      "in "
      "each training step, which saves the time to start its kernels one by one; without dropout "
      "and gradient_checkpointing, and not in fp16. No effect on a CPU");
  if (!is_graph) return;
  if (is_checkpointing) {
    throw ConfigError("{}: expected false with gradient_checkpointing, found true",
                      params.Where("cuda_graph"));
  }
  training_ = std::make_unique<RepeatedWork>();
}

DiffusionPolicy::~DiffusionPolicy() = default;

std::unique_ptr<Policy> DiffusionPolicy::Assemble(
    std::string name, const Config& params, const PolicySpec& spec,
    const std::function<std::unique_ptr<ObsEncoder>(const Config&, const PolicySpec&,
                                                    torch::nn::Module&)>& make_encoder,
    const std::function<std::shared_ptr<Denoiser>(const Config&, const PolicySpec&,
                                                  const DenoiserChannels&, torch::nn::Module&)>&
        make_denoiser) {
  Model model;
  model.obs_encoder = make_encoder(params, spec, *model.module);
  model.channels = DenoiserChannels::FromConfig(params, spec, model.obs_encoder->feature_dim(),
                                                model.obs_encoder->task_dim());
  model.denoiser = make_denoiser(params, spec, model.channels, *model.module);
  return std::make_unique<DiffusionPolicy>(std::move(name), params, spec, std::move(model));
}

DiffusionPolicy* DiffusionPolicy::Find(Policy& policy) {
  return dynamic_cast<DiffusionPolicy*>(&plugin::Unguarded(policy));
}

void DiffusionPolicy::WeightsChanged() {
  PolicyBase::WeightsChanged();
  model_.denoiser->DropCaches();
  denoising_->Forget();
  has_caches_ = false;
}

int DiffusionPolicy::n_train_obs_steps() const {
  return model_.channels.inpaints_obs ? spec().horizons.horizon : spec().horizons.n_obs_steps;
}

LossOutput DiffusionPolicy::BatchLoss(const Batch& batch, NoiseSource& noise) {
  NoiseSource* regularizing = module().is_training() ? &noise : nullptr;  // crops, dropout
  const Tensor naction = normalizer().Normalize("action", batch.action);  // [B, T, Da]
  const Tensor features = FeaturesOf(batch.obs, regularizing);            // [B, To or T, Do]

  // with inpainting, the encoder learns from the steps that the network is given, as upstream
  const bool inpaints = model_.channels.inpaints_obs;
  const Tensor x_0 = inpaints ? torch::cat({naction, features.detach()}, /*dim=*/2) : naction;

  const Tensor prefix = DrawPrefix(noise, naction);
  const auto answer_of = [&](DiffusionPolicy* policy) {
    return [&, policy](const Tensor& sequence, const Tensor& times) {
      const Tensor input =
          inpaints ? Inpaint(sequence, features) : WithPrefix(sequence, x_0, prefix);
      const Tensor cond = ConditionOf(features);
      return AnswerOf(policy->model_.denoiser->Forward(input.detach(), times, cond.detach(),
                                                       /*noise=*/nullptr))
          .detach();
    };
  };
  TrainingInputs inputs = {
      .x_0 = x_0, .noise = noise, .average = answer_of(average_ != nullptr ? average_ : this)};
  if (teacher_ != nullptr) inputs.teacher = answer_of(teacher_);
  std::vector<TrainingPass> passes = objective_->Corrupt(inputs);
  TraceStage("normalized action", naction);
  for (TrainingPass& pass : passes) {
    pass.noisy = WithPrefix(pass.noisy, x_0, prefix);
    pass.is_given = prefix;
  }
  if (chunk_weights_.defined()) chunk_weights_ = chunk_weights_.to(x_0.device());
  const bool is_repeated = training_ != nullptr && module().is_training();
  const Tensor loss = is_repeated ? RepeatedLossOf(passes, features, batch.is_pad, regularizing)
                                  : LossOf(passes, features, batch.is_pad, regularizing);
  TraceStage("loss", loss);
  return {.loss = loss, .parts = {}};
}

void DiffusionPolicy::LearnFrom(Policy& teacher, Policy& average) {
  DiffusionPolicy* const other = Find(teacher);
  average_ = Find(average);
  if (other == nullptr || average_ == nullptr) {
    throw ConfigError("training.teacher: expected a policy of the same kind, found another one");
  }
  if (other->max_prefix() != max_prefix()) {
    throw ConfigError(
        "training.teacher: expected policy.params.max_prefix={} as the student, found {}",
        max_prefix(), other->max_prefix());
  }
  objective_->LearnFrom(*other->objective_);
  teacher_ = other;
}

// A student takes the features of its teacher. So both networks see the same condition, with the
// same crops, and the encoder keeps the weights of the teacher's.
Tensor DiffusionPolicy::FeaturesOf(const TensorMap& obs, NoiseSource* regularizing) {
  if (teacher_ == nullptr) return EncodeObs(obs, regularizing);
  // without gradients, a network may use values cached from its weights, which change in training
  if (!torch::GradMode::is_enabled()) average_->WeightsChanged();
  const torch::NoGradGuard no_grad;
  return teacher_->EncodeObs(obs, regularizing);
}

Tensor DiffusionPolicy::RepeatedLossOf(const std::vector<TrainingPass>& passes,
                                       const Tensor& features, const Tensor& is_pad,
                                       NoiseSource* regularizing) {
  if (AutocastType(features.device().type()) == torch::kFloat16) {
    throw ConfigError(
        "policy.params.cuda_graph: a graph knows no scale of the loss, which "
        "training.mixed_precision=fp16 needs; set it to false, or use bf16");
  }
  std::vector<Tensor> inputs = {features, is_pad};
  for (TrainingPass pass : passes) {
    for (const Tensor* tensor : TensorsOf(&pass)) inputs.push_back(*tensor);
  }
  const auto loss_of = [&](const std::vector<Tensor>& tensors) {
    std::vector<TrainingPass> given = passes;
    auto next = tensors.begin() + 2;
    for (TrainingPass& pass : given) {
      for (Tensor* tensor : TensorsOf(&pass)) *tensor = *next++;
    }
    return LossOf(given, tensors[0], tensors[1], regularizing);
  };
  try {
    return training_->RunWithGradient(inputs, module().parameters(), loss_of);
  } catch (const RecordingError& error) {
    throw ConfigError(
        "policy.params.cuda_graph: the network cannot be recorded. Set it to false, or leave out "
        "what draws or copies on the host in each step, such as dropout. LibTorch says: {}",
        error.what());
  }
}

Tensor DiffusionPolicy::LossOf(const std::vector<TrainingPass>& passes, const Tensor& features,
                               const Tensor& is_pad, NoiseSource* regularizing) {
  Tensor loss;
  for (const TrainingPass& pass : passes) {
    const Tensor of_pass = LossOf(pass, features, is_pad, regularizing);
    loss = loss.defined() ? loss + of_pass : of_pass;
  }
  return loss;
}

Tensor DiffusionPolicy::LossOf(const TrainingPass& pass, const Tensor& features,
                               const Tensor& is_pad, NoiseSource* regularizing) {
  const Tensor noisy = model_.channels.inpaints_obs ? Inpaint(pass.noisy, features) : pass.noisy;
  if (pass.noise.defined()) TraceStage("noise", ActionOf(pass.noise));
  TraceStage("timesteps", pass.times);
  TraceStage("noisy action", ActionOf(noisy));
  const Tensor output =
      model_.denoiser->Forward(noisy, pass.times, ConditionOf(features), regularizing);
  TraceStage("network output", output);
  const Tensor prediction = AnswerOf(output);
  TraceStage(objective_->prediction_name(), ActionOf(prediction));
  return WeightedLoss(prediction, pass, is_pad);
}

Tensor DiffusionPolicy::WeightedLoss(const Tensor& prediction, const TrainingPass& pass,
                                     const Tensor& is_pad) const {
  const bool inpaints = model_.channels.inpaints_obs;
  if (!mask_loss_for_padding_ && !chunk_weights_.defined() && !pass.row_weights.defined() &&
      !inpaints && !pass.is_given.defined()) {
    return torch::mse_loss(prediction, pass.target);
  }
  Tensor squares = torch::square(prediction - pass.target);  // [B, T, Da or Da + Do]
  if (mask_loss_for_padding_) squares = squares * is_pad.logical_not().unsqueeze(-1);
  if (chunk_weights_.defined()) squares = squares * chunk_weights_;
  if (pass.row_weights.defined()) squares = squares * pass.row_weights.view({-1, 1, 1});
  if (pass.is_given.defined()) squares = squares * (1.0 - pass.is_given);
  if (inpaints) squares = Inpaint(squares, torch::zeros_like(squares.slice(2, action_dim())));
  return squares.mean();
}

// Puts the first To steps of `features` [B, To or more, Do] in the place of the observations of
// `sequence` [B, T, Da + Do].
Tensor DiffusionPolicy::Inpaint(const Tensor& sequence, const Tensor& features) const {
  const std::int64_t n_obs = spec().horizons.n_obs_steps;
  const Tensor obs =
      torch::cat({features.slice(1, 0, n_obs), sequence.slice(2, action_dim()).slice(1, n_obs)},
                 /*dim=*/1);
  return torch::cat({ActionOf(sequence), obs}, /*dim=*/2);
}

// The action's channels of [B, T, Da or Da + Do].
Tensor DiffusionPolicy::ActionOf(const Tensor& sequence) const {
  const bool has_others = model_.channels.inpaints_obs || max_prefix() > 0;
  return has_others ? sequence.slice(2, 0, action_dim()) : sequence;
}

// The network's output without the channel of the prefix, which means nothing.
Tensor DiffusionPolicy::AnswerOf(const Tensor& output) const {
  const Tensor answer = FullPrecision(output);
  return max_prefix() > 0 ? answer.slice(2, 0, action_dim()) : answer;
}

Tensor DiffusionPolicy::DrawPrefix(NoiseSource& noise, const Tensor& like) const {
  if (max_prefix() == 0) return {};
  const Tensor lengths =
      (noise.Uniform(StreamId::kPrefixLength, {like.size(0)}) * (max_prefix() + 1)).floor();
  const Tensor steps =
      torch::arange(spec().horizons.horizon, torch::kFloat32) - (spec().horizons.n_obs_steps - 1);
  const Tensor is_given = steps.ge(0).logical_and(steps.lt(lengths.unsqueeze(1)));
  return is_given.to(like.options()).unsqueeze(2);
}

Tensor DiffusionPolicy::WithPrefix(const Tensor& sequence, const Tensor& given,
                                   const Tensor& is_given) const {
  if (max_prefix() == 0) return sequence;
  return torch::cat({torch::where(is_given.gt(0.5), given, sequence), is_given}, /*dim=*/2);
}

Tensor DiffusionPolicy::WithPrefix(const Tensor& sequence, const Guidance* guidance) const {
  if (max_prefix() == 0) return sequence;
  const bool is_given = guidance != nullptr && guidance->is_given;
  const Tensor steps =
      is_given ? guidance->weights.slice(2, 0, 1).eq(1.0).to(sequence.options())
               : torch::zeros({sequence.size(0), sequence.size(1), 1}, sequence.options());
  return WithPrefix(sequence, is_given ? guidance->target : sequence, steps);
}

// What the denoiser gets beside the sequence: the features, or with inpainting no channels of them.
Tensor DiffusionPolicy::ConditionOf(const Tensor& features) const {
  return model_.channels.inpaints_obs ? features.slice(2, 0, 0) : features;
}

Tensor DiffusionPolicy::PredictSequence(const TensorMap& obs, NoiseSource& noise) {
  const Tensor features = EncodeObs(obs, /*augment=*/nullptr);
  return ActionOf(ConditionalSample(features, InitialSample(features, noise), noise));
}

Tensor DiffusionPolicy::ContinueSequence(const TensorMap& obs, const ChunkPrefix& prefix,
                                         NoiseSource& noise) {
  const Tensor features = EncodeObs(obs, /*augment=*/nullptr);
  const SamplingPlan plan = sampling_plan();
  const std::vector<Tensor> inputs =
      SamplingInputs(plan, features, InitialSample(features, noise), noise);
  // observations that are denoised beside the action are not guided
  const std::int64_t n_obs_channels =
      model_.channels.inpaints_obs ? model_.channels.sample - action_dim() : 0;
  const auto widened = [&](const Tensor& of_action) {
    return torch::constant_pad_nd(of_action, {0, n_obs_channels}).to(features.options());
  };
  const Guidance guidance = {
      .target = widened(prefix.actions),
      .weights = widened(prefix.weights.unsqueeze(-1).expand_as(prefix.actions)),
      .max_weight = prefix.max_guidance_weight,
      .is_given = prefix.is_given};
  if (prefix.has_full_jacobian && !prefix.is_given) {
    return ActionOf(DenoiseThroughNetwork(plan, inputs, guidance));
  }
  const Tensor sequence = ActionOf(Denoise(plan, inputs, &guidance));
  if (!prefix.is_given) return sequence;
  return torch::where(prefix.weights.eq(1.0).unsqueeze(-1), prefix.actions.to(sequence.options()),
                      sequence);
}

// [B, T, Da], with inpainting Da + Do.
Tensor DiffusionPolicy::InitialSample(const Tensor& features, NoiseSource& noise) const {
  const std::vector<std::int64_t> shape = {features.size(0), spec().horizons.horizon,
                                           model_.channels.sample - (max_prefix() > 0 ? 1 : 0)};
  const Tensor initial = objective_->starts_from_noise()
                             ? noise.Randn(StreamId::kPolicyNoise, shape)
                             : torch::zeros(shape);
  return initial.to(features.options());
}

Tensor DiffusionPolicy::ConditionalSample(const Tensor& features, const Tensor& initial,
                                          NoiseSource& noise) {
  const SamplingPlan plan = sampling_plan();
  return denoising_->Run(
      SamplingInputs(plan, features, initial, noise),
      [&](const std::vector<Tensor>& tensors) { return Denoise(plan, tensors); });
}

// The features, the initial noise and the noise of each step that adds some.
std::vector<Tensor> DiffusionPolicy::SamplingInputs(const SamplingPlan& plan,
                                                    const Tensor& features, const Tensor& initial,
                                                    NoiseSource& noise) const {
  std::vector<Tensor> inputs = {features, initial};
  for (const SamplerStep& step : plan.steps) {
    if (step.noise == 0.0) continue;
    inputs.push_back(noise.Randn(StreamId::kPolicyNoise, initial.sizes()).to(initial.options()));
  }
  return inputs;
}

// Runs `plan` with SamplingInputs, on the CPU with a group of rows on each thread. The first plan
// with new weights fills the caches of the network, which groups only read.
Tensor DiffusionPolicy::Denoise(const SamplingPlan& plan, const std::vector<Tensor>& inputs,
                                const Guidance* guidance) {
  const std::int64_t n_rows = inputs[0].size(0);
  const bool is_whole = !std::exchange(has_caches_, true) || IsTracingStages() ||
                        !UsesOwnLoops(inputs[0]) || CountRowGroups(n_rows) == 1;
  if (is_whole) return DenoiseRows(plan, inputs, guidance);
  Tensor sequence = at::empty(inputs[1].sizes(), inputs[1].options());
  ForRowGroups(n_rows, CountRowGroups(n_rows), [&](std::int64_t begin, std::int64_t n) {
    std::vector<Tensor> of_group;
    for (const Tensor& input : inputs) of_group.push_back(input.narrow(0, begin, n));
    std::optional<Guidance> guidance_of_group;
    if (guidance != nullptr) {
      guidance_of_group = *guidance;
      guidance_of_group->target = guidance->target.narrow(0, begin, n);
      guidance_of_group->weights = guidance->weights.narrow(0, begin, n);
    }
    sequence.narrow(0, begin, n)
        .copy_(DenoiseRows(plan, of_group, guidance_of_group ? &*guidance_of_group : nullptr));
  });
  return sequence;
}

Tensor DiffusionPolicy::DenoiseRows(const SamplingPlan& plan, const std::vector<Tensor>& inputs,
                                    const Guidance* guidance) {
  std::vector<double> times;
  for (const SamplerStep& step : plan.steps) times.push_back(step.time);
  const Tensor& features = inputs[0];
  // InferenceMode uses cheaper operators, but its tensors must not leave it: hence the copy below
  Tensor sequence;
  {
    const c10::InferenceMode inference;
    const PlanningKernels kernels(features.device());
    const ConditionedDenoiser predict = [&] {
      RECORD_USER_SCOPE("conditioning");
      return model_.denoiser->Condition(times, ConditionOf(features));
    }();
    const auto denoise = [&](const Tensor& at, std::size_t i) {
      const Tensor output =
          AnswerOf(predict(WithPrefix(at, guidance), static_cast<std::int64_t>(i)));
      if (guidance == nullptr || guidance->is_given) return output;
      const SamplerStep& step = plan.steps[i];
      return GuidedOutput(step, output, GuidanceError(step, at, output, *guidance),
                          guidance->max_weight);
    };
    sequence =
        RunSamplingPlan(plan, inputs[1], features,
                        {.denoise = denoise,
                         .draw_noise = [next = inputs.begin() + 2]() mutable { return *next++; },
                         .time_unit = objective_->time_unit()});
  }
  return sequence.clone();
}

// The same with guidance through the network, which needs its gradient.
Tensor DiffusionPolicy::DenoiseThroughNetwork(const SamplingPlan& plan,
                                              const std::vector<Tensor>& inputs,
                                              const Guidance& guidance) {
  const Tensor& features = inputs[0];
  const Tensor cond = ConditionOf(features);
  const auto denoise = [&](const Tensor& at, std::size_t i) {
    const SamplerStep& step = plan.steps[i];
    const Tensor times = torch::full({at.size(0)}, step.time, features.options());
    const auto forward = [&](const Tensor& sample) {
      return AnswerOf(model_.denoiser->Forward(WithPrefix(sample, nullptr), times, cond,
                                               /*noise=*/nullptr));
    };
    return OutputGuidedThrough(forward, step, at, guidance);
  };
  return RunSamplingPlan(plan, inputs[1], features,
                         {.denoise = denoise,
                          .draw_noise = [next = inputs.begin() + 2]() mutable { return *next++; },
                          .time_unit = objective_->time_unit()});
}

SamplingPlan DiffusionPolicy::sampling_plan() const {
  return {.starts_from_noise = objective_->starts_from_noise(),
          .inpaints_obs = model_.channels.inpaints_obs,
          .steps = objective_->steps()};
}

Tensor DiffusionPolicy::EncodeObs(const TensorMap& obs, NoiseSource* augment) {
  RECORD_USER_SCOPE("observation encoding");
  Tensor cond = FullPrecision(model_.obs_encoder->Encode(obs, normalizer(), augment));
  TraceStage("condition", cond);
  return cond;
}

}  // namespace dp_bench::policy
