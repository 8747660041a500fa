// See policy_config.h.
#include "interop/policy_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "core/errors.h"

namespace dp_bench::interop {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kTypeNames = {"STATE", "ENV", "VISUAL", "ACTION"};
constexpr std::array<std::string_view, 3> kNormNames = {"IDENTITY", "MEAN_STD", "MIN_MAX"};

constexpr const char* kBackbone = "resnet18";
constexpr const char* kDilation = "replace_final_stride_with_dilation";  // of ACT, as the next
constexpr const char* kBackboneRate = "optimizer_lr_backbone";
constexpr std::string_view kAction = "action";

template <class Enum, std::size_t n>
std::optional<Enum> Parse(const std::array<std::string_view, n>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

// Calls visit(name, place, field) for every field that is read and written as it is. `place`: where
// dp_bench's config has the same number, a JSON pointer.
template <class AnyConfig, class Visitor>
void VisitActFields(AnyConfig& config, const Visitor& visit) {
  const auto in_params = [&](const char* name, auto& field) {
    visit(name, std::string("/policy/params/") + name, field);
  };
  visit("chunk_size", "/horizon", config.horizon);
  visit("temporal_ensemble_coeff", "/temporal_ensemble_coeff", config.act.temporal_ensemble_coeff);
  in_params("pre_norm", config.act.pre_norm);
  in_params("dim_model", config.act.dim_model);
  in_params("n_heads", config.act.n_heads);
  in_params("dim_feedforward", config.act.dim_feedforward);
  in_params("feedforward_activation", config.act.feedforward_activation);
  in_params("n_encoder_layers", config.act.n_encoder_layers);
  in_params("n_decoder_layers", config.act.n_decoder_layers);
  in_params("use_vae", config.act.use_vae);
  in_params("latent_dim", config.act.latent_dim);
  in_params("n_vae_encoder_layers", config.act.n_vae_encoder_layers);
  in_params("dropout", config.act.dropout);
  in_params("kl_weight", config.act.kl_weight);
}

template <class AnyConfig, class Visitor>
void VisitDiffusionFields(AnyConfig& config, const Visitor& visit) {
  const auto in_params = [&](const char* name, const char* place, auto& field) {
    visit(name, std::string("/policy/params/") + place, field);
  };
  const auto in_scheduler = [&](const char* name, auto& field) {
    visit(name, std::string("/policy/params/noise_scheduler/") + name, field);
  };
  visit("horizon", "/horizon", config.horizon);
  visit("drop_n_last_frames", "/drop_n_last_frames", config.drop_n_last_frames);
  in_params("resize_shape", "resize_shape", config.resize_shape);
  in_params("crop_shape", "crop_shape", config.crop_shape);
  in_params("crop_is_random", "crop_is_random", config.crop_is_random);
  in_params("use_group_norm", "obs_encoder/use_group_norm", config.use_group_norm);
  in_params("spatial_softmax_num_keypoints", "obs_encoder/spatial_softmax_num_keypoints",
            config.spatial_softmax_num_keypoints);
  in_params("use_separate_rgb_encoder_per_camera",
            "obs_encoder/use_separate_rgb_encoder_per_camera",
            config.use_separate_rgb_encoder_per_camera);
  in_params("down_dims", "down_dims", config.down_dims);
  in_params("kernel_size", "kernel_size", config.kernel_size);
  in_params("n_groups", "n_groups", config.n_groups);
  in_params("diffusion_step_embed_dim", "diffusion_step_embed_dim",
            config.diffusion_step_embed_dim);
  in_params("use_film_scale_modulation", "cond_predict_scale", config.use_film_scale_modulation);
  in_params("noise_scheduler_type", "noise_scheduler/type", config.noise_scheduler_type);
  in_scheduler("num_train_timesteps", config.num_train_timesteps);
  in_scheduler("beta_schedule", config.beta_schedule);
  in_scheduler("beta_start", config.beta_start);
  in_scheduler("beta_end", config.beta_end);
  in_scheduler("prediction_type", config.prediction_type);
  in_scheduler("clip_sample", config.clip_sample);
  in_scheduler("clip_sample_range", config.clip_sample_range);
  in_scheduler("num_inference_steps", config.num_inference_steps);
  in_params("do_mask_loss_for_padding", "do_mask_loss_for_padding",
            config.do_mask_loss_for_padding);
  visit("optimizer_betas", "/optimizer/betas", config.optimizer_betas);
  visit("optimizer_eps", "/optimizer/eps", config.optimizer_eps);
  visit("scheduler_name", "/training/lr_scheduler", config.scheduler_name);
  visit("scheduler_warmup_steps", "/training/lr_warmup_steps", config.scheduler_warmup_steps);
}

template <class AnyConfig, class Visitor>
void VisitFields(AnyConfig& config, const Visitor& visit) {
  visit("n_obs_steps", "/n_obs_steps", config.n_obs_steps);
  visit("n_action_steps", "/n_action_steps", config.n_action_steps);
  if (config.is_act()) {
    VisitActFields(config, visit);
  } else {
    VisitDiffusionFields(config, visit);
  }
  visit("optimizer_lr", "/optimizer/lr", config.optimizer_lr);
  visit("optimizer_weight_decay", "/optimizer/weight_decay", config.optimizer_weight_decay);
}

// A field as JSON; none is null.
template <class T>
OrderedJson FieldAsJson(const T& field) {
  if constexpr (requires { field.has_value(); }) {
    return field ? OrderedJson(*field) : OrderedJson(nullptr);
  } else {
    return field;
  }
}

std::string WithCase(std::string text, int (*convert)(int)) {
  std::ranges::transform(text, text.begin(),
                         [&](unsigned char c) { return static_cast<char>(convert(c)); });
  return text;
}

void RequireKnownFields(const core::JsonView& file, LerobotPolicyConfig config) {
  std::set<std::string_view> known;
  // read by name
  known.insert({"type", "input_features", "output_features", "normalization_mapping", "crop_ratio",
                "vision_backbone"});
  // without effect on the network: where it runs, how its training began and was sped up, where it
  // is published
  known.insert({"pretrained_backbone_weights", "device", "use_amp", "use_peft", "push_to_hub",
                "repo_id", "private", "tags", "license", "pretrained_path", "pretrained_revision",
                "gradient_checkpointing", "compile_model", "compile_mode"});
  if (config.is_act()) known.insert({kDilation, kBackboneRate});
  VisitFields(config, [&](const char* name, const auto&, const auto&) { known.insert(name); });
  for (const auto& [name, value] : file.Members()) {
    if (known.contains(name)) continue;
    file.Fail(
        "the field '{}' is unknown: this LeRobot is newer than the versions that dp_bench knows "
        "(0.3 to 0.6), and the field may change the network",
        name);
  }
}

struct ReadField {
  const core::JsonView& file;

  template <class T>
  void operator()(const char* name, const auto& /*place*/, T& field) const {
    field = file.Get<T>(name);
  }
  template <class T>
  void operator()(const char* name, const auto& /*place*/, std::optional<T>& field) const {
    field = file.GetOptional<T>(name);
  }
  void operator()(const char* name, const auto& /*place*/, std::array<double, 2>& field) const {
    const auto values = file.Get<std::vector<double>>(name);
    if (values.size() != 2) file.Fail("{}: expected two numbers, found {}", name, values.size());
    std::ranges::copy(values, field.begin());
  }
};

// The names of the members of `key` in the order of the file, which nlohmann::json sorts.
std::vector<std::string> NamesInOrder(std::string_view text, const char* key) {
  std::vector<std::string> names;
  const OrderedJson json = OrderedJson::parse(text);
  for (const auto& item : json.at(key).items()) names.push_back(item.key());
  return names;
}

std::vector<LerobotFeature> ReadFeatures(const core::JsonView& file, std::string_view text,
                                         const char* key) {
  const core::JsonView section = file.At(key);
  std::vector<LerobotFeature> features;
  for (const std::string& name : NamesInOrder(text, key)) {
    const core::JsonView entry = section.At(name);
    const auto type = Parse<LerobotFeatureType>(kTypeNames, entry.Get<std::string>("type"));
    if (!type) {
      entry.Fail("type: expected {}, found '{}'", fmt::join(kTypeNames, ", "),
                 entry.Get<std::string>("type"));
    }
    const auto shape = entry.Get<Shape>("shape");
    const std::size_t n_dims = type == LerobotFeatureType::kVisual ? 3 : 1;
    if (shape.size() != n_dims || std::ranges::any_of(shape, [](auto n) { return n < 1; })) {
      entry.Fail("shape: expected {} positive sizes, found {}", n_dims, ToString(shape));
    }
    features.push_back({.name = name, .type = *type, .shape = shape});
  }
  return features;
}

// The inputs that LeRobot's policy reads, in its order; others it ignores.
std::vector<LerobotFeature> InputsOfNetwork(const core::JsonView& file,
                                            const std::vector<LerobotFeature>& inputs) {
  std::vector<LerobotFeature> seen;
  const auto take = [&](auto&& is_wanted) {
    std::ranges::copy_if(inputs, std::back_inserter(seen), is_wanted);
  };
  take([](const LerobotFeature& input) {
    return input.type == LerobotFeatureType::kState && input.name == kLerobotState;
  });
  if (seen.empty()) file.Fail("input_features: expected '{}'", kLerobotState);
  take([](const LerobotFeature& input) { return input.type == LerobotFeatureType::kVisual; });
  take([](const LerobotFeature& input) {
    return input.type == LerobotFeatureType::kEnv && input.name == kLerobotEnvState;
  });
  return seen;
}

template <class T>
void RequireOneOf(const core::JsonView& file, const char* field, const T& found,
                  const std::vector<T>& wanted) {
  if (std::ranges::find(wanted, found) != wanted.end()) return;
  file.Fail("{}: expected {}, found {}", field, fmt::join(wanted, " or "), found);
}

void RequireReproducible(const core::JsonView& file, const LerobotPolicyConfig& config) {
  RequireOneOf<std::string>(file, "vision_backbone", file.Get<std::string>("vision_backbone"),
                            {kBackbone});
  if (config.is_act()) {
    const nlohmann::json& dilation = file.At(kDilation).json();
    if (dilation != false && dilation != 0) file.Fail("{}: expected false", kDilation);
    RequireOneOf<std::string>(file, "feedforward_activation", config.act.feedforward_activation,
                              {"relu", "gelu"});
    RequireOneOf(file, "n_obs_steps", config.n_obs_steps, {1});
    return;
  }
  RequireOneOf<std::string>(file, "noise_scheduler_type", config.noise_scheduler_type,
                            {"DDPM", "DDIM"});
  RequireOneOf<std::string>(file, "prediction_type", config.prediction_type, {"epsilon", "sample"});
}

void RequireSize(const core::JsonView& file, const char* field, const std::optional<Shape>& size) {
  constexpr std::int64_t kMaxPixels = 1 << 20;
  const auto is_bad = [](std::int64_t n) { return n < 1 || n > kMaxPixels; };
  if (!size || (size->size() == 2 && std::ranges::none_of(*size, is_bad))) return;
  file.Fail("{}: expected [height, width] in pixels, found {}", field, ToString(*size));
}

// Since 0.6 LeRobot derives the crop of resized images from crop_ratio.
void DeriveCrop(const core::JsonView& file, LerobotPolicyConfig* config) {
  if (!config->resize_shape) return;
  const double ratio = file.GetOptional<double>("crop_ratio").value_or(1.0);
  if (!(ratio > 0.0 && ratio <= 1.0)) {
    file.Fail("crop_ratio: expected a number above 0, at most 1, found {}", ratio);
  }
  config->crop_shape.reset();
  if (ratio == 1.0) return;
  config->crop_shape.emplace();
  for (const std::int64_t size : *config->resize_shape) {
    config->crop_shape->push_back(static_cast<std::int64_t>(static_cast<double>(size) * ratio));
  }
}

// The ratio from which LeRobot derives the crop of resized images.
double CropRatio(const Shape& resized, const Shape& crop) {
  double least = 0.0;
  double above = 1.0;
  for (std::size_t i = 0; i < crop.size(); ++i) {
    const auto whole = static_cast<double>(resized.at(i));
    least = std::max(least, static_cast<double>(crop[i]) / whole);
    above = std::min(above, static_cast<double>(crop[i] + 1) / whole);
  }
  if (least < above) return (least + above) / 2.0;
  throw ConfigError(
      "LeRobot crops resized images by one ratio for height and width; no ratio makes {} of {}",
      ToString(crop), ToString(resized));
}

}  // namespace

std::string_view Name(LerobotFeatureType type) {
  return kTypeNames.at(static_cast<std::size_t>(type));
}
std::string_view Name(LerobotNorm norm) { return kNormNames.at(static_cast<std::size_t>(norm)); }

OrderedJson AsJson(const LerobotNormMap& norms) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [type, norm] : norms) json[std::string(Name(type))] = Name(norm);
  return json;
}

OrderedJson AsJson(std::span<const LerobotFeature> features) {
  OrderedJson json = OrderedJson::object();
  for (const LerobotFeature& feature : features) {
    json[feature.name] = {{"type", Name(feature.type)}, {"shape", feature.shape}};
  }
  return json;
}

LerobotNorm LerobotPolicyConfig::NormOf(LerobotFeatureType feature) const {
  const auto found = normalization_mapping.find(feature);
  return found == normalization_mapping.end() ? LerobotNorm::kIdentity : found->second;
}

std::vector<LerobotFeature> LerobotPolicyConfig::cameras() const {
  std::vector<LerobotFeature> result;
  std::ranges::copy_if(inputs, std::back_inserter(result), [](const LerobotFeature& input) {
    return input.type == LerobotFeatureType::kVisual;
  });
  return result;
}

LerobotNormMap ReadLerobotNormMap(const core::JsonView& section) {
  LerobotNormMap norms;
  for (const auto& [name, value] : section.Members()) {
    const auto type = Parse<LerobotFeatureType>(kTypeNames, name);
    const auto norm = Parse<LerobotNorm>(kNormNames, value.As<std::string>());
    if (!type) continue;  // of features that a diffusion policy does not have
    if (!norm) {
      value.Fail("expected one of {}, found '{}'", fmt::join(kNormNames, ", "),
                 value.As<std::string>());
    }
    norms[*type] = *norm;
  }
  return norms;
}

nlohmann::json ToSettings(const LerobotPolicyConfig& config) {
  nlohmann::json settings;
  VisitFields(config, [&](const char*, const std::string& place, const auto& field) {
    settings[nlohmann::json::json_pointer(place)] = nlohmann::json(FieldAsJson(field));
  });
  if (config.is_act()) return settings;
  nlohmann::json& scheduler = settings["policy"]["params"]["noise_scheduler"];
  scheduler["type"] = WithCase(config.noise_scheduler_type, std::tolower);
  if (!config.num_inference_steps) scheduler["num_inference_steps"] = config.num_train_timesteps;
  return settings;
}

void TakeSettings(const nlohmann::json& settings, LerobotPolicyConfig* config) {
  VisitFields(*config, [&](const char*, const std::string& place, auto& field) {
    const nlohmann::json::json_pointer pointer(place);
    if (!settings.contains(pointer) || settings.at(pointer).is_null()) return;
    if constexpr (requires { field.emplace(); }) {
      settings.at(pointer).get_to(field.emplace());
    } else {
      settings.at(pointer).get_to(field);
    }
  });
  config->noise_scheduler_type = WithCase(config->noise_scheduler_type, std::toupper);
}

LerobotPolicyConfig ParseLerobotPolicyConfig(std::string_view text, const fs::path& path) {
  const std::string what = fmt::format("'{}'", path.string());
  const nlohmann::json json = core::ParseJson(text, what, ErrorCode::kCheckpoint);
  const core::JsonView file(json, what, ErrorCode::kCheckpoint);
  LerobotPolicyConfig config;
  config.type = file.Get<std::string>("type");
  RequireOneOf<std::string_view>(file, "type", config.type, {kLerobotDiffusion, kLerobotAct});
  RequireKnownFields(file, config);
  VisitFields(config, ReadField{file});
  if (config.is_act()) config.act.optimizer_lr_backbone = file.Get<double>(kBackboneRate);
  if (config.act.temporal_ensemble_coeff) config.n_action_steps = config.horizon;
  RequireReproducible(file, config);
  RequireSize(file, "resize_shape", config.resize_shape);
  DeriveCrop(file, &config);
  RequireSize(file, "crop_shape", config.crop_shape);
  config.inputs = InputsOfNetwork(file, ReadFeatures(file, text, "input_features"));
  const std::vector<LerobotFeature> outputs = ReadFeatures(file, text, "output_features");
  if (outputs.size() != 1 || outputs[0].name != kAction ||
      outputs[0].type != LerobotFeatureType::kAction) {
    file.Fail("output_features: expected '{}' alone", kAction);
  }
  config.action = outputs[0];
  config.normalization_mapping = ReadLerobotNormMap(file.At("normalization_mapping"));
  return config;
}

std::string ToJson(const LerobotPolicyConfig& config) {
  OrderedJson json = {{"type", config.type},
                      {"input_features", AsJson(config.inputs)},
                      {"output_features", AsJson(std::span(&config.action, 1))},
                      {"normalization_mapping", AsJson(config.normalization_mapping)}};
  VisitFields(config, [&](const char* name, const auto&, const auto& field) {
    json[name] = FieldAsJson(field);
  });
  if (config.is_act()) {
    if (config.act.temporal_ensemble_coeff) json["n_action_steps"] = 1;
    json[kDilation] = false;
    json[kBackboneRate] = config.act.optimizer_lr_backbone;
  } else {
    json["crop_ratio"] = config.resize_shape && config.crop_shape
                             ? CropRatio(*config.resize_shape, *config.crop_shape)
                             : 1.0;
  }
  json["vision_backbone"] = kBackbone;
  json["pretrained_backbone_weights"] = nullptr;
  json["device"] = "cpu";
  json["push_to_hub"] = false;
  return json.dump(2) + "\n";
}

}  // namespace dp_bench::interop
