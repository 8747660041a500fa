// The optimizers on ATen's fused kernels, parameter groups and gradient clipping.
#include "train/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>
#include <set>
#include <utility>

#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "planner/policy_weights.h"

namespace dp_bench::train {
namespace {

// of the gradient scaler
constexpr std::int64_t kGrowthInterval = 2000;  // updates
constexpr float kGrowthFactor = 2.0F;
constexpr float kBackoffFactor = 0.5F;

// Names of the weights of all torch::nn::Embedding modules below `module`.
std::set<std::string> EmbeddingWeights(const torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& child : module.named_modules("", /*include_self=*/false)) {
    if (child.value()->as<torch::nn::Embedding>() != nullptr) names.insert(child.key() + ".weight");
  }
  return names;
}

bool NameSaysEmbedding(const std::string& name) {
  return name.find("pos_emb") != std::string::npos || name.find("embedding") != std::string::npos;
}

std::regex ToRegex(const ParameterRule& rule) {
  try {
    return std::regex(rule.pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& fault) {
    throw ConfigError("{}: '{}' is not a regular expression: {}", rule.where, rule.pattern,
                      fault.what());
  }
}

const char* NameOf(OptimizerKind kind) {
  constexpr std::array kNames = {"adamw", "adam", "sgd"};
  return kNames.at(static_cast<std::size_t>(kind));
}

/// The compiled patterns of the rules.
class RuleSearch {
 public:
  explicit RuleSearch(const std::vector<ParameterRule>& rules) {
    for (const ParameterRule& rule : rules) patterns_.push_back(ToRegex(rule));
  }

  bool Matches(std::size_t rule, const std::string& name) const {
    return std::regex_search(name, patterns_[rule]);
  }

  /// The first rule that matches; the number of rules if none does.
  std::size_t First(const std::string& name) const {
    std::size_t rule = 0;
    while (rule < patterns_.size() && !Matches(rule, name)) ++rule;
    return rule;
  }

 private:
  std::vector<std::regex> patterns_;
};

void RequireMatches(const std::vector<ParameterRule>& rules, const RuleSearch& search,
                    const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto matches = [&](const std::string& name) { return search.Matches(i, name); };
    if (std::ranges::any_of(names, matches)) continue;
    constexpr std::size_t kMaxShown = 8;
    const std::size_t stride = names.size() / kMaxShown + 1;  // samples every part of the network
    std::vector<std::string> shown;
    for (std::size_t k = 0; k < names.size(); k += stride) shown.push_back(names[k]);
    throw ConfigError(
        "{}: '{}' matches none of the policy's {} parameters; some of their names: {}",
        rules[i].where, rules[i].pattern, names.size(), fmt::join(shown, ", "));
  }
}

}  // namespace

ParameterRule ParameterRule::FromConfig(const Config& config) {
  ParameterRule rule;
  const ConfigKeys keys(config);
  rule.pattern = config.Require<std::string>(
      "pattern", "regex that is searched in parameter names; the first rule that matches counts");
  rule.where = config.Where("pattern");
  ToRegex(rule);
  keys("frozen", &rule.is_frozen, "do not train these parameters; the rule then has no other keys");
  if (rule.is_frozen) return rule;  // other keys have no meaning then, and are left unread
  keys("lr_scale", &rule.lr_scale, 0.0, 1e6, "factor on the learning rate");
  keys("weight_decay", &rule.weight_decay, 0.0, 1e3,
       "weight decay of matrices and kernels; none for the optimizer's");
  return rule;
}

std::vector<std::string> OptimizerConfig::StateNames() const {
  if (kind != OptimizerKind::kSgd) return {"exp_avg", "exp_avg_sq"};
  if (momentum > 0.0) return {"momentum_buffer"};
  return {};
}

OptimizerConfig OptimizerConfig::FromConfig(const Config& config) {
  OptimizerConfig c;
  const ConfigKeys keys(config);
  keys.Choice("name", &c.kind,
              {{NameOf(OptimizerKind::kAdamW), OptimizerKind::kAdamW},
               {NameOf(OptimizerKind::kAdam), OptimizerKind::kAdam},
               {NameOf(OptimizerKind::kSgd), OptimizerKind::kSgd}},
              "adamw: decoupled weight decay; adam and sgd: the decay is part of the gradient, as "
              "in torch.optim");
  keys("lr", &c.lr, 0.0, 1e3, "learning rate at factor 1 of the schedule");
  std::array betas = {c.beta1, c.beta2};
  keys("betas", &betas,
       "adamw and adam: decay of the running means of the gradient and of its square; two numbers "
       "in [0, 1)");
  const auto is_beta = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  if (!is_beta(betas[0]) || !is_beta(betas[1])) {
    throw ConfigError("{} must be two numbers in [0, 1)", config.Where("betas"));
  }
  c.beta1 = betas[0];
  c.beta2 = betas[1];
  keys("eps", &c.eps, 0.0, 1.0, "adamw and adam: added to the denominator of an update");
  keys("weight_decay", &c.weight_decay, 0.0, 1e3, "none on biases, norms and embeddings");
  if (c.kind == OptimizerKind::kSgd) {
    keys("momentum", &c.momentum, 0.0, 1.0, "sgd only: share of the last update in the next one");
    keys("nesterov", &c.nesterov, "sgd only: Nesterov's momentum, which needs momentum above 0");
    if (c.nesterov && c.momentum == 0.0) {
      throw ConfigError("{}: expected a momentum above 0 with nesterov, found {}",
                        config.Where("momentum"), c.momentum);
    }
  }
  for (const Config& rule : config.List("param_groups", "rules for parts of the network")) {
    c.param_groups.push_back(ParameterRule::FromConfig(rule));
  }
  return c;
}

void FreezeParameters(torch::nn::Module& module, const OptimizerConfig& config) {
  const std::vector<ParameterRule>& rules = config.param_groups;
  if (rules.empty()) return;
  const RuleSearch search(rules);
  auto parameters = module.named_parameters();
  RequireMatches(rules, search, parameters.keys());
  bool is_any_trained = false;
  for (auto& item : parameters) {
    const std::size_t rule = search.First(item.key());
    if (rule < rules.size() && rules[rule].is_frozen) item.value().requires_grad_(false);
    is_any_trained = is_any_trained || item.value().requires_grad();
  }
  if (is_any_trained) return;
  throw ConfigError("optimizer.param_groups freezes every parameter of the policy");
}

std::vector<ParameterGroup> MakeParameterGroups(const torch::nn::Module& module,
                                                const OptimizerConfig& config) {
  const std::vector<ParameterRule>& rules = config.param_groups;
  const RuleSearch search(rules);
  const std::set<std::string> embeddings = EmbeddingWeights(module);

  // two groups for parameters without a rule, then two per rule: with and without weight decay
  std::vector<ParameterGroup> groups(2 * (rules.size() + 1));
  groups[0].weight_decay = config.weight_decay;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    ParameterGroup* const pair = &groups[2 * (i + 1)];
    pair[0].weight_decay = rules[i].weight_decay.value_or(config.weight_decay);
    pair[0].lr_scale = pair[1].lr_scale = rules[i].lr_scale;
  }
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& parameter = item.value();
    if (!parameter.requires_grad()) continue;
    const bool is_plain =
        parameter.dim() <= 1 || embeddings.contains(item.key()) || NameSaysEmbedding(item.key());
    const std::size_t rule = search.First(item.key());
    const std::size_t pair = rule < rules.size() ? rule + 1 : 0;
    ParameterGroup& group = groups[2 * pair + (is_plain ? 1 : 0)];
    group.names.push_back(item.key());
    group.parameters.push_back(parameter);
  }
  std::erase_if(groups, [](const ParameterGroup& group) { return group.names.empty(); });
  return groups;
}

std::vector<torch::Tensor> GradientsOf(const std::vector<ParameterGroup>& groups) {
  std::vector<torch::Tensor> gradients;
  for (const ParameterGroup& group : groups) {
    for (const torch::Tensor& parameter : group.parameters) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  return gradients;
}

Optimizer::Optimizer(const OptimizerConfig& config, std::vector<ParameterGroup> groups)
    : config_(config), state_names_(config.StateNames()), groups_(std::move(groups)) {
  std::set<std::string> names;
  for (const ParameterGroup& group : groups_) {
    std::vector<std::vector<torch::Tensor>> state(state_names_.size());
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      if (!names.insert(group.names[i]).second) {
        throw InternalError("parameter '{}' was given to the optimiser twice", group.names[i]);
      }
      const torch::Tensor values = group.parameters[i].detach();
      for (auto& tensors : state) tensors.push_back(torch::zeros_like(values));
    }
    state_.push_back(std::move(state));
  }
  if (names.empty()) throw InternalError("the policy has no trainable parameters");
  step_ = torch::zeros({}, groups_[0].parameters[0].options().dtype(torch::kFloat32)).detach();
}

void Optimizer::Step(double lr) {
  const torch::NoGradGuard no_grad;
  // differs: torch.optim counts steps per parameter. Here the step is shared, so a parameter that
  // had no gradient for a while gets the same bias correction as the others.
  step_.add_(1.0);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Active active = ActiveOf(g);
    if (active.parameters.empty()) continue;
    const double lr_of_group = lr * groups_[g].lr_scale;
    if (config_.kind == OptimizerKind::kSgd) {
      StepSgd(active, groups_[g], lr_of_group);
    } else {
      StepAdam(active, groups_[g], lr_of_group);
    }
  }
}

Optimizer::Active Optimizer::ActiveOf(std::size_t group) const {
  Active active;
  active.state.resize(state_names_.size());
  const std::vector<torch::Tensor>& parameters = groups_[group].parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].grad().defined()) continue;
    active.parameters.push_back(parameters[i]);
    active.gradients.push_back(parameters[i].grad());
    for (std::size_t k = 0; k < active.state.size(); ++k) {
      active.state[k].push_back(state_[group][k][i]);
    }
  }
  return active;
}

void Optimizer::StepAdam(const Active& active, const ParameterGroup& group, double lr) const {
  const std::vector<torch::Tensor> steps(active.parameters.size(), step_);
  const auto step = [&](const auto& fused) {
    fused(active.parameters, active.gradients, active.state[0], active.state[1],
          /*max_exp_avg_sqs=*/at::TensorList{}, steps, lr, config_.beta1, config_.beta2,
          group.weight_decay, config_.eps, /*amsgrad=*/false, /*maximize=*/false);
  };
  if (config_.kind == OptimizerKind::kAdamW) {
    step([](const auto&... arguments) { torch::_fused_adamw_(arguments...); });
  } else {
    step([](const auto&... arguments) { torch::_fused_adam_(arguments...); });
  }
}

void Optimizer::StepSgd(const Active& active, const ParameterGroup& group, double lr) const {
  // torch.optim begins with the gradient as the buffer, which is the same as momentum on zeros
  torch::_fused_sgd_(active.parameters, active.gradients,
                     state_names_.empty() ? std::vector<torch::Tensor>() : active.state[0],
                     group.weight_decay, config_.momentum, lr, /*dampening=*/0.0, config_.nesterov,
                     /*maximize=*/false, /*is_first_step=*/false);
}

void Optimizer::ZeroGrad() {
  // dropped instead of zeroed: the next backward pass writes instead of adding
  for (ParameterGroup& group : groups_) {
    for (torch::Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

torch::Tensor Optimizer::ClipGradNorm(double max_norm) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = GradientsOf(groups_);
  if (gradients.empty()) return torch::zeros_like(step_);
  torch::Tensor norm = torch::stack(torch::_foreach_norm(gradients, 2)).norm();

  // torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1
  constexpr double kEps = 1e-6;
  const torch::Tensor factor = (max_norm / (norm + kEps)).clamp_max(1.0);
  // on the CPU it costs nothing to check whether clipping is needed
  const bool is_within = factor.is_cpu() && factor.item<float>() == 1.0F;
  if (!is_within) torch::_foreach_mul_(gradients, factor);
  return norm;
}

TensorMap Optimizer::StateDict() const {
  TensorMap state;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t i = 0; i < groups_[g].names.size(); ++i) {
      for (std::size_t k = 0; k < state_names_.size(); ++k) {
        state[groups_[g].names[i] + "." + state_names_[k]] = state_[g][k][i];
      }
    }
  }
  state["step"] = step_;
  return state;
}

void Optimizer::LoadStateDict(const ArrayMap& state) {
  RequireSameKind(state);
  planner::LoadTensors(StateDict(), state, "the tensors of the optimizer",
                       "Was the checkpoint written with another config?");
}

void Optimizer::RequireSameKind(const ArrayMap& state) const {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    for (const std::string& name : OptimizerConfig{.kind = kind}.StateNames()) {
      if (std::ranges::find(state_names_, name) != state_names_.end()) continue;
      const auto is_other = [&](const auto& item) { return item.first.ends_with("." + name); };
      if (std::ranges::none_of(state, is_other)) continue;
      throw CheckpointError(
          "the checkpoint has '{}' of another optimizer than optimizer.name={} (momentum {}). "
          "Resume with the settings of the checkpoint, or start a new training from its weights "
          "(training.init_checkpoint).",
          name, NameOf(config_.kind), config_.momentum);
    }
  }
}

bool UnscaleGradients(const std::vector<ParameterGroup>& groups, double scale) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = GradientsOf(groups);
  if (gradients.empty()) return true;
  const auto options = torch::TensorOptions(torch::kFloat32).device(gradients.front().device());
  torch::Tensor found_inf = torch::zeros({1}, options);
  const torch::Tensor inverse = torch::full({1}, 1.0 / scale, options);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse);
  return found_inf.item<float>() == 0.0F;
}

void UpdateScale(bool is_finite, GradScalerState* state) {
  if (!is_finite) {
    state->scale *= kBackoffFactor;
    state->growth_tracker = 0;
    ++state->skips_in_a_row;
    return;
  }
  state->skips_in_a_row = 0;
  if (++state->growth_tracker < kGrowthInterval) return;
  state->growth_tracker = 0;
  const float grown = state->scale * kGrowthFactor;
  if (std::isfinite(grown)) state->scale = grown;
}

}  // namespace dp_bench::train
