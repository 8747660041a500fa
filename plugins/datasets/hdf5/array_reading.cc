#include "array_reading.h"

#include <fmt/format.h>

#include <algorithm>

namespace dp_bench::hdf5 {
namespace {

using Kind = ArrayHeader::Kind;

constexpr std::int64_t kLeastPixels = 16;  // of an image, in each direction

// An array with the right type and number of dimensions may be an image.
struct ImageAxes {
  std::int64_t n_channels = 0;  // 0: no image
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool is_planes = false;
};

ImageAxes AxesOf(const Shape& shape) {
  if (shape.size() == 3) return {.n_channels = 1, .height = shape[1], .width = shape[2]};
  if (shape.size() != 4) return {};
  const auto is_channels = [](std::int64_t n) { return n >= 1 && n <= 4; };
  if (shape[3] == 3 || (is_channels(shape[3]) && shape[1] != 3)) {
    return {.n_channels = shape[3], .height = shape[1], .width = shape[2]};
  }
  if (!is_channels(shape[1])) return {};
  return {.n_channels = shape[1], .height = shape[2], .width = shape[3], .is_planes = true};
}

// Small arrays may be numbers in a table.
bool IsLarge(const ImageAxes& axes) { return std::min(axes.height, axes.width) >= kLeastPixels; }

std::optional<KeyType> GuessImage(const ArrayQuestion& question, const ImageAxes& axes,
                                  std::string* obstacle) {
  const ArrayHeader& header = question.header;
  if (axes.n_channels == 0) return KeyType::kLowDim;
  if (header.Is(Kind::kUnsigned, 1)) {
    if (axes.n_channels == 3 && header.shape.size() == 4) return KeyType::kRgb;
    if (!IsLarge(axes)) return KeyType::kLowDim;
    *obstacle = fmt::format(
        "images with {} channel{}; to read them as numbers, give it the type low_dim in "
        "dataset.params.keys",
        axes.n_channels, axes.n_channels == 1 ? "" : "s");
    return std::nullopt;
  }
  if (header.Is(Kind::kUnsigned, 2) && axes.n_channels == 1) return KeyType::kDepth;
  if (header.kind != Kind::kFloat || !IsLarge(axes)) return KeyType::kLowDim;
  if (question.has_colours) return KeyType::kRgb;
  const bool is_depth = axes.n_channels == 1 && question.key.find("depth") != std::string::npos;
  return is_depth ? KeyType::kDepth : KeyType::kLowDim;
}

std::optional<ArrayReading> Image(const ArrayQuestion& question, const ImageAxes& axes,
                                  KeyType type, std::string* obstacle) {
  const ArrayHeader& header = question.header;
  const bool is_rgb = type == KeyType::kRgb;
  ArrayReading reading{.spec = {.name = question.key, .type = type, .shape = {}},
                       .stored = StoredAs::kPixels};
  reading.spec.shape = {is_rgb ? 3 : 1, axes.height, axes.width};
  reading.spec.dtype = is_rgb                           ? DType::kUInt8
                       : header.kind == Kind::kUnsigned ? DType::kUInt16
                                                        : DType::kFloat32;
  bool fits = axes.n_channels == (is_rgb ? 3 : 1);
  if (is_rgb && header.Is(Kind::kFloat, 4)) {
    reading.stored = StoredAs::kFloatColour;
    fits = fits && !axes.is_planes;
  } else if (is_rgb) {
    if (axes.is_planes) reading.stored = StoredAs::kPlanes;
    fits = fits && header.Is(Kind::kUnsigned, 1);
  } else {
    fits = fits && (header.Is(Kind::kUnsigned, 2) || header.kind == Kind::kFloat);
  }
  if (fits) return reading;
  *obstacle = fmt::format(
      "{} is expected as {}; {}", Name(type),
      is_rgb ? "uint8 [steps, H, W, 3] or [steps, 3, H, W], float32 [steps, H, W, 3] of 0 to 255, "
               "or JPEG files in rows"
             : "uint16 [mm] or floating-point numbers [m], [steps, H, W(, 1)]",
      AdviceForNumbers(question.key));
  return std::nullopt;
}

}  // namespace

bool MayBeFloatColour(const ArrayHeader& header) {
  const ImageAxes axes = AxesOf(header.shape);
  return header.Is(Kind::kFloat, 4) && axes.n_channels == 3 && !axes.is_planes && IsLarge(axes);
}

std::string AdviceForNumbers(const std::string& key) {
  return fmt::format(R"(to read it as numbers, --keys '{{"{}": {{"type": "low_dim"}}}}')", key);
}

std::optional<ArrayReading> ReadAs(const ArrayQuestion& question, std::string* obstacle) {
  const ArrayHeader& header = question.header;
  const bool is_files = !question.image.empty();
  if (is_files && question.type.value_or(KeyType::kRgb) == KeyType::kRgb) {
    return ArrayReading{.spec = {.name = question.key,
                                 .type = KeyType::kRgb,
                                 .shape = {3, question.image[0], question.image[1]},
                                 .dtype = DType::kUInt8},
                        .stored = StoredAs::kFiles};
  }
  if (!header.is_number()) {
    *obstacle = "it holds " + header.dtype;
    return std::nullopt;
  }
  if (std::find(header.shape.begin() + 1, header.shape.end(), 0) != header.shape.end()) {
    *obstacle = "its steps are empty";
    return std::nullopt;
  }
  const ImageAxes axes = AxesOf(header.shape);
  const std::optional<KeyType> type =
      question.type ? question.type : GuessImage(question, axes, obstacle);
  if (!type) return std::nullopt;
  if (*type != KeyType::kLowDim) return Image(question, axes, *type, obstacle);
  ArrayReading reading{.spec = {.name = question.key, .shape = {}}};
  reading.spec.shape.assign(header.shape.begin() + 1, header.shape.end());
  if (reading.spec.shape.empty()) reading.spec.shape = {1};
  return reading;
}

}  // namespace dp_bench::hdf5
