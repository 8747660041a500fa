// See memory_advice.h. A variant is the resolved config with a JSON merge patch (RFC 7396).
#include "inspect/memory_advice.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "run/create_from_checkpoint.h"
#include "train/fit_normalizer.h"
#include "train/step_memory.h"
#include "train/train_config.h"

namespace dp_bench::inspect {
namespace {

using Json = nlohmann::json;
using train::MixedPrecision;

// A change, as the user writes it and as a patch of the config.
struct MemoryVariant {
  std::string key;
  std::string value;
  Json patch;
  std::int64_t batch_size = 0;
  MixedPrecision precision = MixedPrecision::kNo;
};

Json ValueAt(const Json& json, const char* pointer) {
  const Json::json_pointer place(pointer);
  return json.contains(place) ? json.at(place) : Json();
}

// Bytes of a training: what is held, and a step.
std::int64_t NeededBytes(const experiment::Experiment& experiment, const Json& json,
                         std::int64_t batch_size, MixedPrecision precision) {
  const Config config = Config::FromJson(json.dump(), "the config of a variant");
  const auto policy = run::CreatePolicy(config, experiment.catalogue());
  policy->SetNormalizer(train::NeutralNormalizer(
      policy->spec().shape_meta, train::NormalizerConfig::FromConfig(config.Sub("normalizer"))));
  const train::HeldMemory held = train::MeasureHeldMemory(
      policy->module(), train::TrainingConfig::FromConfig(config.Sub("training")).use_ema,
      train::CheckpointConfig::FromConfig(config.Sub("checkpoint")).background,
      train::OptimizerConfig::FromConfig(config.Sub("optimizer")));
  return held.total() + train::StepMemoryModel(*policy, precision).At(batch_size).total();
}

// [height, width] of the pictures that the encoder gets.
std::pair<std::int64_t, std::int64_t> PictureSize(const Json& params, const KeySpec& camera) {
  for (const char* key : {"resize_shape", "crop_shape"}) {
    const Json size = params.value(key, Json());
    if (size.is_array() && size.size() == 2 && size[0].is_number_integer()) {
      return {size[0].get<std::int64_t>(), size[1].get<std::int64_t>()};
    }
  }
  return {camera.shape[1], camera.shape[2]};
}

// Without the last colour camera, and without its depth.
Json WithoutCamera(const ShapeMeta& shape_meta, const KeySpec& camera) {
  Json obs = {{camera.name, nullptr}};
  std::vector<std::string> rgb;
  std::vector<std::string> depth;
  for (const KeySpec& key : shape_meta.obs) {
    if (key.type == KeyType::kRgb) rgb.push_back(key.name);
    if (key.type == KeyType::kDepth) depth.push_back(key.name);
  }
  if (depth.size() == rgb.size()) obs[depth.back()] = nullptr;
  return {{"shape_meta", {{"obs", obs}}}};
}

void AddVision(const experiment::Experiment& experiment, const Json& config,
               const MemoryVariant& base, std::vector<MemoryVariant>* variants) {
  const KeySpec* camera = nullptr;
  int n_cameras = 0;
  for (const KeySpec& key : experiment.spec().shape_meta.obs) {
    if (key.type != KeyType::kRgb) continue;
    camera = &key;
    ++n_cameras;
  }
  if (camera == nullptr) return;
  const auto change = [&](std::string key, std::string value, Json patch) {
    MemoryVariant variant = base;
    variant.key = std::move(key);
    variant.value = std::move(value);
    variant.patch = std::move(patch);
    variants->push_back(std::move(variant));
  };
  const auto params = [](Json values) { return Json{{"policy", {{"params", std::move(values)}}}}; };
  const auto size = PictureSize(ValueAt(config, "/policy/params"), *camera);
  const Json half = {size.first / 2, size.second / 2};
  change("policy.params.resize_shape", half.dump(), params({{"resize_shape", half}}));
  if (n_cameras > 1) {
    change("shape_meta.obs", "without " + camera->name,
           WithoutCamera(experiment.spec().shape_meta, *camera));
  }
  const Json width = ValueAt(config, "/policy/params/obs_encoder/resnet_width");
  if (width.is_number_integer() && width.get<std::int64_t>() > 8) {
    const std::int64_t narrow = width.get<std::int64_t>() / 2;
    change("policy.params.obs_encoder.resnet_width", std::to_string(narrow),
           params({{"obs_encoder", {{"resnet_width", narrow}}}}));
  }
}

std::vector<MemoryVariant> MakeVariants(const experiment::Experiment& experiment,
                                        const Json& config, const MemoryVariant& base) {
  std::vector<MemoryVariant> variants;
  if (base.batch_size > 1) {
    const std::int64_t accumulate =
        ValueAt(config, "/training/gradient_accumulate_every").get<std::int64_t>();
    MemoryVariant half = base;
    half.batch_size = base.batch_size / 2;
    half.key = "dataloader.batch_size";
    half.value =
        fmt::format("{} training.gradient_accumulate_every={}", half.batch_size, 2 * accumulate);
    variants.push_back(half);
  }
  if (base.precision == MixedPrecision::kNo) {
    MemoryVariant bf16 = base;
    bf16.precision = MixedPrecision::kBf16;
    bf16.key = "training.mixed_precision";
    bf16.value = "bf16";
    variants.push_back(bf16);
  }
  if (ValueAt(config, "/policy/params/gradient_checkpointing") == Json(false)) {
    MemoryVariant checkpointing = base;
    checkpointing.key = "policy.params.gradient_checkpointing";
    checkpointing.value = "true";
    checkpointing.patch = {{"policy", {{"params", {{"gradient_checkpointing", true}}}}}};
    variants.push_back(checkpointing);
  }
  AddVision(experiment, config, base, &variants);
  return variants;
}

}  // namespace

std::vector<Advice> AdviseMemory(const experiment::Experiment& experiment) {
  const auto training = train::TrainingConfig::FromConfig(experiment.config().Sub("training"));
  const auto loading =
      train::DataLoaderConfig::FromConfig(experiment.config().Sub("dataloader"), true);
  experiment.CreatePolicy();  // adds the defaults of its params to the config
  const Json config = Json::parse(experiment.config().ToJson());
  const MemoryVariant base = {.batch_size = loading.batch_size,
                              .precision = training.mixed_precision};
  const std::int64_t needed = NeededBytes(experiment, config, base.batch_size, base.precision);
  std::vector<Advice> advice;
  for (const MemoryVariant& variant : MakeVariants(experiment, config, base)) {
    Json changed = config;
    changed.merge_patch(variant.patch.is_null() ? Json::object() : variant.patch);
    std::int64_t saved = 0;
    try {
      saved = needed - NeededBytes(experiment, changed, variant.batch_size, variant.precision);
    } catch (const Error&) {
      continue;  // this policy cannot do that
    }
    if (saved <= 0) continue;
    advice.push_back({.key = variant.key,
                      .value = variant.value,
                      .reason = fmt::format("saves about {:.0f} of {:.0f} MiB",
                                            train::Mebibytes(saved), train::Mebibytes(needed)),
                      .saved_bytes = saved});
  }
  return advice;
}

std::string AdviceLines(const std::vector<Advice>& advice) {
  std::string text;
  for (const Advice& each : advice) {
    text += fmt::format("  {}={}: {}\n", each.key, each.value, each.reason);
  }
  return text;
}

}  // namespace dp_bench::inspect
