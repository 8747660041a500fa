#include "view/action_source.h"

#include <algorithm>

#include "core/errors.h"
#include "rollout/shape_match.h"

namespace dp_bench::view {
namespace {

int Height(const KeySpec& rgb) { return static_cast<int>(rgb.shape[1]); }
int Width(const KeySpec& rgb) { return static_cast<int>(rgb.shape[2]); }

const KeySpec& KeyOf(const Dataset& dataset, int key) {
  return dataset.spec().keys[static_cast<std::size_t>(key)];
}

// Copies an image [h, w, 3] to the columns of `mosaic` from `left` onwards.
void Paste(std::span<const std::byte> picture, int width, int height, int left, RgbImage* mosaic) {
  const auto row_bytes = static_cast<std::size_t>(width) * 3;
  for (int row = 0; row < height; ++row) {
    const auto to = static_cast<std::size_t>(row * mosaic->width + left) * 3;
    std::ranges::transform(picture.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes),
                           mosaic->pixels.begin() + static_cast<std::ptrdiff_t>(to),
                           [](std::byte value) { return static_cast<std::uint8_t>(value); });
  }
}

EnvSpec SpecOf(const Dataset& dataset, double control_hz) {
  EnvSpec spec;
  for (const KeySpec& key : dataset.spec().keys) {
    if (key.name == "action") {
      spec.shape_meta.action = key;
    } else {
      spec.shape_meta.obs.push_back(key);
    }
  }
  std::int64_t begin = 0;
  for (const std::int64_t end : dataset.episode_ends()) {
    spec.max_steps = std::max(spec.max_steps, static_cast<int>(end - begin));
    begin = end;
  }
  spec.control_hz = control_hz;
  return spec;
}

// Nearest-neighbour scaling of `in` to the size of `out`.
void Stretch(const RgbImage& in, RgbImage* out) {
  std::uint8_t* to = out->pixels.data();
  for (int row = 0; row < out->height; ++row) {
    const int in_row = row * in.height / out->height;
    for (int column = 0; column < out->width; ++column, to += 3) {
      const int in_column = column * in.width / out->width;
      const auto from = static_cast<std::size_t>(in_row * in.width + in_column) * 3;
      std::copy_n(in.pixels.data() + from, 3, to);
    }
  }
}

}  // namespace

ExpertSource::ExpertSource(Env& env) : env_(env) {
  if (env.spec().abilities.has_expert) return;
  throw UsageError(
      "--expert: this env has no expert; give --checkpoint, --dataset or --human instead");
}

Supply ExpertSource::Next(std::span<float> action) {
  env_.Act(action);
  return Supply::kAction;
}

PointerSource::PointerSource(Env& env) : env_(env) {
  if (env.spec().abilities.has_pointer_control) return;
  throw UsageError(
      "--human: this env cannot be moved with a pointer; give --checkpoint, --expert or --dataset "
      "instead");
}

Supply PointerSource::Next(std::span<float> action) {
  if (!pointer_.is_down) return Supply::kWait;
  env_.PointerAction(pointer_.x, pointer_.y, action);
  return Supply::kAction;
}

PlannerSource::PlannerSource(Env& env, control::ChunkPlanner& planner, const ShapeMeta& shape_meta,
                             const Horizons& horizons)
    : env_(env), seen_(env.spec()), loop_(planner, shape_meta, horizons) {
  const std::vector<int> index_of_env = rollout::MatchObsKeys(env.spec().shape_meta, shape_meta);
  for (std::size_t i = 0; i < index_of_env.size(); ++i) {
    if (index_of_env[i] < 0) continue;
    const KeySpec& key = seen_.keys()[i];
    wanted_.emplace_back(key.name, seen_[i].data(), key.dtype, Dims(key.StorageShape()));
  }
}

Supply PlannerSource::Next(std::span<float> action) {
  seen_.Observe(env_);
  std::ranges::copy(loop_.Act(wanted_), action.begin());
  return Supply::kAction;
}

StepRange StepsOfEpisode(const Dataset& dataset, std::uint64_t episode) {
  const std::span<const std::int64_t> ends = dataset.episode_ends();
  if (episode >= ends.size()) {
    throw UsageError("there is no episode {}; the dataset has {}, counted from 0", episode,
                     ends.size());
  }
  return {.begin = episode == 0 ? 0 : ends[episode - 1], .end = ends[episode]};
}

RecordedSource::RecordedSource(const Dataset& dataset, std::vector<std::uint64_t> seeds,
                               std::int64_t action_dim)
    : dataset_(dataset), seeds_(std::move(seeds)) {
  const KeySpec& action = KeyOf(dataset, dataset.KeyIndex("action"));
  if (action.NumElements() != action_dim) {
    throw ShapeError(
        "the dataset's actions have {} numbers, those of the env {}: it was not recorded in this "
        "env",
        action.NumElements(), action_dim);
  }
  if (!seeds_.empty() && seeds_.size() != dataset.episode_ends().size()) {
    throw DataError("the dataset has {} episodes and {} seeds", dataset.episode_ends().size(),
                    seeds_.size());
  }
}

std::optional<std::uint64_t> RecordedSource::SeedOf(std::uint64_t episode) const {
  if (episode >= dataset_.episode_ends().size()) return std::nullopt;
  return seeds_.empty() ? episode : seeds_[episode];
}

void RecordedSource::Begin(std::uint64_t episode) {
  const int key = dataset_.KeyIndex("action");
  const StepRange steps = StepsOfEpisode(dataset_, episode);
  actions_.resize(
      static_cast<std::size_t>((steps.end - steps.begin) * KeyOf(dataset_, key).NumElements()));
  dataset_.Read(key, steps.begin, steps.end, std::as_writable_bytes(std::span(actions_)));
  next_ = 0;
}

Supply RecordedSource::Next(std::span<float> action) {
  if (next_ == actions_.size()) return Supply::kEnd;
  std::ranges::copy(std::span(actions_).subspan(next_, action.size()), action.begin());
  next_ += action.size();
  return Supply::kAction;
}

RecordedEnv::RecordedEnv(const Dataset& dataset, double control_hz)
    : Env(SpecOf(dataset, control_hz)), dataset_(dataset), mosaic_(0, 0) {
  int width = 0;
  int height = 0;
  for (int key = 0; key < static_cast<int>(dataset.spec().keys.size()); ++key) {
    const KeySpec& spec = KeyOf(dataset, key);
    if (spec.type != KeyType::kRgb) continue;
    rgb_keys_.push_back(key);
    width += Width(spec);
    height = std::max(height, Height(spec));
  }
  if (rgb_keys_.empty()) {
    throw UsageError(
        "there is nothing to show: the dataset has no seeds from which its actions would repeat an "
        "episode (`dp_bench collect` without action noise keeps them), and it has no images under "
        "this task; choose one with an rgb key, such as pusht_image");
  }
  mosaic_ = RgbImage(width, height);
}

void RecordedEnv::DoReset(std::uint64_t episode) {
  steps_ = StepsOfEpisode(dataset_, episode);
  step_ = steps_.begin;
}

// There is no observation after the last action: the episode ends with its last image.
StepResult RecordedEnv::DoStep(std::span<const float>) {
  DPB_ASSERT(step_ < steps_.end);
  step_ = std::min(step_ + 1, steps_.end - 1);
  return {.terminated = step_ == steps_.end - 1};
}

void RecordedEnv::DoObserve(const ObsWriter& obs) {
  const std::vector<KeySpec>& keys = spec().shape_meta.obs;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    dataset_.Read(dataset_.KeyIndex(keys[i].name), step_, step_ + 1, obs.buffers()[i]);
  }
}

void RecordedEnv::DoRender(RgbImage* frame) {
  int left = 0;
  for (const int key : rgb_keys_) {
    const KeySpec& spec = KeyOf(dataset_, key);
    picture_.resize(spec.ByteSize());
    dataset_.Read(key, step_, step_ + 1, picture_);
    Paste(picture_, Width(spec), Height(spec), left, &mosaic_);
    left += Width(spec);
  }
  Stretch(mosaic_, frame);
}

}  // namespace dp_bench::view
