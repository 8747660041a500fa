// See image_augmentation.h.
#include "policy/vision/image_augmentation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "core/errors.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;
using Change = ImageAugmentation::Change;
using Draws = ImageAugmentation::Draws;

// A setting beyond these limits is a mistake, for example a value in per cent.
constexpr double kMaxWeight = 1e6;
constexpr double kMaxFactor = 10.0;

// A number drawn uniformly from `range`, passed to `adjust` with the images.
Change AdjustWithin(const Config& entry, std::array<double, 2> range, double min, double max,
                    Tensor (*adjust)(const Tensor& images, const Tensor& factor),
                    const KeyMeaning& meaning) {
  const ConfigKeys keys(entry);
  keys("range", &range, meaning);
  const double low = range[0];
  const double high = range[1];
  if (!(min <= low && low <= high && high <= max)) {
    throw ConfigError("{}: expected [low, high] with {} <= low <= high <= {}, found [{}, {}]",
                      entry.Where("range"), min, max, low, high);
  }
  return [=](const Tensor& images, const Draws& draws) {
    return adjust(images, draws.uniform.select(1, 0) * (high - low) + low);
  };
}

// A factor around 1, which changes nothing.
template <Tensor (*adjust)(const Tensor& images, const Tensor& factor)>
Change MakeAdjustment(const Config& entry) {
  return AdjustWithin(entry, {0.5, 1.5}, 0.0, kMaxFactor, adjust, "[low, high] of the factor");
}

Change MakeHue(const Config& entry) {
  return AdjustWithin(entry, {-0.05, 0.05}, -0.5, 0.5, AdjustHue,
                      "[low, high] of the shift of the hue, in turns of the colour circle");
}

Change MakeGamma(const Config& entry) {
  return AdjustWithin(entry, {0.5, 2.0}, 0.0, kMaxFactor, AdjustGamma,
                      "[low, high] of the power of each value");
}

std::int64_t PixelsOf(double share, std::int64_t pixels) {
  return static_cast<std::int64_t>(share * static_cast<double>(pixels));
}

// Uniform in {0, ..., bound - 1}. Computed in float64, where the product cannot be rounded up to
// the bound.
Tensor ToInteger(const Tensor& uniform, std::int64_t bound) {
  return (uniform.to(torch::kFloat64) * static_cast<double>(bound)).to(torch::kInt64);
}

Change MakeRandomMask(const Config& entry) {
  std::array size = {0.15, 0.15};
  const ConfigKeys keys(entry);
  keys("size", &size, "height and width of the black rectangle, as shares of the image's");
  if (!(size[0] > 0.0 && size[0] <= 1.0 && size[1] > 0.0 && size[1] <= 1.0)) {
    throw ConfigError(
        "{}: expected shares of height and width above 0 and at most 1, found [{}, {}]",
        entry.Where("size"), size[0], size[1]);
  }
  return [size](const Tensor& images, const Draws& draws) {
    const std::int64_t height = PixelsOf(size[0], images.size(3));
    const std::int64_t width = PixelsOf(size[1], images.size(4));
    const Tensor top = ToInteger(draws.uniform.select(1, 0), images.size(3) - height + 1);
    const Tensor left = ToInteger(draws.uniform.select(1, 1), images.size(4) - width + 1);
    return BlackenRectangles(images, torch::stack({top, top + height, left, left + width}, 1));
  };
}

Tensor Rectangle(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
  return torch::tensor({top, bottom, left, right});
}

Change MakeBorderCutout(const Config& entry) {
  const double fraction =
      entry.GetInRange("fraction", 0.15, 0.0, 1.0,
                       "share of height or width that turns black at one of the four borders");
  return [fraction](const Tensor& images, const Draws& draws) {
    const std::int64_t height = images.size(3);
    const std::int64_t width = images.size(4);
    const std::int64_t rows = PixelsOf(fraction, height);
    const std::int64_t columns = PixelsOf(fraction, width);
    const Tensor borders = torch::stack({Rectangle(0, rows, 0, width),                    // top
                                         Rectangle(height - rows, height, 0, width),      // bottom
                                         Rectangle(0, height, 0, columns),                // left
                                         Rectangle(0, height, width - columns, width)});  // right
    const Tensor side = ToInteger(draws.uniform.select(1, 0), 4);
    return BlackenRectangles(images, borders.index_select(0, side));
  };
}

Change MakeGaussianNoise(const Config& entry) {
  const double sigma =
      entry.GetInRange("sigma", 0.1, 0.0, 1.0, "standard deviation, where values run from 0 to 1");
  return [sigma](const Tensor& images, const Draws& draws) {
    return AddGaussianNoise(images, draws.noise_keys, sigma);
  };
}

struct ChangeType {
  std::string_view name;
  double default_weight;
  Change (*make)(const Config& entry);
};

constexpr std::array<ChangeType, 10> kTypes = {{
    {"border_cutout", 1.0, MakeBorderCutout},
    {"brightness", 1.0, MakeAdjustment<AdjustBrightness>},
    {"contrast", 1.0, MakeAdjustment<AdjustContrast>},
    {"gamma", 1.0, MakeGamma},
    {"gaussian_noise", 1.0, MakeGaussianNoise},
    {"hue", 1.0, MakeHue},
    {"identity", 3.0, [](const Config&) { return Change(); }},
    {"random_mask", 1.0, MakeRandomMask},
    {"saturation", 1.0, MakeAdjustment<AdjustSaturation>},
    {"sharpness", 1.0, MakeAdjustment<AdjustSharpness>},
}};

void RequireKnownTypes(const Config& augmentation) {
  std::vector<std::string> names;
  for (const ChangeType& type : kTypes) names.emplace_back(type.name);
  for (const std::string& name : augmentation.Keys()) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw ConfigError("{}: there is no augmentation '{}'; there are {}", augmentation.Where(name),
                      name, fmt::join(names, ", "));
  }
}

void CheckImages(const Tensor& images, std::int64_t batch_size) {
  if (images.dim() == 5 && images.size(0) == batch_size && images.size(2) == 3 &&
      images.scalar_type() == torch::kFloat32) {
    return;
  }
  throw ShapeError(
      "image augmentation needs float32 images of shape [{}, To, 3, H, W], one for each row of the "
      "noise source; found {} of shape {}",
      batch_size, c10::toString(images.scalar_type()),
      ToString(std::span(images.sizes().data(), images.sizes().size())));
}

// The numbers that each row draws, in the same order for every change.
struct RowDraws {
  explicit RowDraws(NoiseSource& noise) {
    constexpr std::int64_t kBound = std::numeric_limits<std::uint32_t>::max();
    uniform = noise.Uniform(StreamId::kAugment, {noise.batch_size(), 3});
    key_low = noise.RandInt(StreamId::kAugment, kBound);
    key_high = noise.RandInt(StreamId::kAugment, kBound);
  }

  float Choice(std::int64_t row) const { return uniform.const_data_ptr<float>()[3 * row]; }

  Draws Select(const std::vector<std::int64_t>& rows) const {
    Draws draws = {.uniform = uniform.index_select(0, torch::tensor(rows)).narrow(1, 1, 2)};
    for (const std::int64_t row : rows) {
      const auto low = static_cast<std::uint64_t>(key_low.const_data_ptr<std::int64_t>()[row]);
      const auto high = static_cast<std::uint64_t>(key_high.const_data_ptr<std::int64_t>()[row]);
      draws.noise_keys.push_back(high << 32U | low);
    }
    return draws;
  }

  Tensor uniform;  // [B, 3]: the choice, and two numbers for the change
  Tensor key_low;  // [B]
  Tensor key_high;
};

}  // namespace

ImageAugmentation::ImageAugmentation(const Config& params) {
  const Config augmentation = params.Sub("augmentation",
                                         "changes of images in training, one of these per sample "
                                         "and camera; {} gives an entry its defaults");
  double total = 0.0;
  for (const ChangeType& type : kTypes) {
    if (!augmentation.Has(type.name)) continue;
    const Config entry = augmentation.Sub(type.name);
    total += entry.GetInRange("weight", type.default_weight, 0.0, kMaxWeight,
                              "how often it is chosen, relative to the other weights");
    entries_.push_back({.change = type.make(entry), .cumulative_weight = total});
  }
  RequireKnownTypes(augmentation);
  if (!empty() && total == 0.0) {
    throw ConfigError(
        "{}: all weights are 0; give one type a weight above 0, or leave 'augmentation' out",
        params.Where("augmentation"));
  }
}

// An entry of weight 0 is never chosen: its cumulative weight equals that of the entry before it.
std::size_t ImageAugmentation::Choose(float uniform) const {
  const double place = static_cast<double>(uniform) * entries_.back().cumulative_weight;
  const auto chosen = std::find_if(entries_.begin(), entries_.end(), [place](const Entry& entry) {
    return place < entry.cumulative_weight;
  });
  return static_cast<std::size_t>(chosen - entries_.begin());
}

Tensor ImageAugmentation::Apply(const Tensor& images, NoiseSource& noise) const {
  if (empty()) return images;
  CheckImages(images, noise.batch_size());

  // every row draws the same numbers, then the rows are grouped by their change
  const RowDraws row_draws(noise);
  std::vector<std::vector<std::int64_t>> rows_of(entries_.size());
  for (std::int64_t row = 0; row < images.size(0); ++row) {
    rows_of[Choose(row_draws.Choice(row))].push_back(row);
  }

  // each change gets only its own rows
  Tensor result = images.clone();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].change || rows_of[i].empty()) continue;
    const Tensor index = torch::tensor(rows_of[i]).to(images.device());
    const Tensor changed =
        entries_[i].change(images.index_select(0, index), row_draws.Select(rows_of[i]));
    result.index_copy_(0, index, changed);
  }
  return result;
}

}  // namespace dp_bench::policy
