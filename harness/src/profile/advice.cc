// See advice.h. A variant of the memory advice is the resolved config with a JSON merge patch
// (RFC 7396).
#include "profile/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "planner/create_from_checkpoint.h"
#include "train/fit_normalizer.h"
#include "train/step_memory.h"
#include "train/train_config.h"

namespace dp_bench::profile {
namespace {

using Json = nlohmann::json;
using train::MixedPrecision;

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

// In the order of `memory`. The first one tells the figure behind all of them.
void AddMemoryAdvice(const TrainingFigures& f, const std::vector<Advice>& memory,
                     std::vector<Advice>* advice) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    advice->push_back(memory[i]);
    if (i > 0) continue;
    advice->back().reason = fmt::format(
        "a step of batch size {} takes {:.0f} MiB, {:.0f} MiB are free; {}", f.batch_size,
        InMebibytes(f.needed_bytes), InMebibytes(f.available_bytes), memory[i].reason);
  }
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
std::int64_t NeededBytes(const task::Experiment& experiment, const Json& json,
                         std::int64_t batch_size, MixedPrecision precision) {
  const Config config = Config::FromJson(json.dump(), "the config of a variant");
  const auto policy = planner::CreatePolicy(config, experiment.catalogue());
  policy->SetNormalizer(train::NeutralNormalizer(
      policy->spec().shape_meta, train::NormalizerConfig::FromConfig(config.Sub("normalizer"))));
  const train::HeldMemory held = train::MeasureHeldMemory(policy->module(), config);
  return held.total() + train::StepMemoryModel(*policy, precision).At(batch_size).total();
}

// [height, width] of the images that the encoder gets.
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

void AddVision(const task::Experiment& experiment, const Json& config, const MemoryVariant& base,
               std::vector<MemoryVariant>* variants) {
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

std::vector<MemoryVariant> MakeVariants(const task::Experiment& experiment, const Json& config,
                                        const MemoryVariant& base) {
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

bool TrainingFigures::is_memory_short() const {
  return available_bytes > 0.0 && needed_bytes >= kMemoryFull * available_bytes;
}

std::vector<Advice> AdviseTraining(const TrainingFigures& figures,
                                   const std::vector<Advice>& memory) {
  std::vector<Advice> advice;
  AdviseData(figures, &advice);
  const bool is_short = figures.is_memory_short();
  if (is_short) AddMemoryAdvice(figures, memory, &advice);
  const bool is_said =
      std::ranges::find(advice, "training.mixed_precision", &Advice::key) != advice.end();
  if (!is_said) AdvisePrecision(figures, &advice);
  if (!is_short) AdviseBatchSize(figures, &advice);
  return advice;
}

std::vector<Advice> AdviseMemory(const task::Experiment& experiment) {
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

}  // namespace dp_bench::profile
