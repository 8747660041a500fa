#include "data/key_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/errors.h"

namespace dp_bench::data {
namespace {

bool Fits(const KeySpec& found, const KeySpec& wanted) {
  const bool is_number = !wanted.is_image();
  return found.type == wanted.type && found.shape == wanted.shape &&
         (is_number || found.dtype == wanted.dtype);
}

}  // namespace

void RequireKeys(const DatasetSpec& dataset, const ShapeMeta& shape_meta) {
  std::vector<KeySpec> wanted = shape_meta.obs;
  wanted.push_back(shape_meta.action);
  std::vector<std::string> problems;
  for (const KeySpec& key : wanted) {
    const auto found = std::ranges::find(dataset.keys, key.name, &KeySpec::name);
    if (found == dataset.keys.end()) {
      problems.push_back(fmt::format("the dataset has no '{}'", key.name));
    } else if (!Fits(*found, key)) {
      problems.push_back(fmt::format("'{}' differs", key.name));
    }
  }
  if (problems.empty()) return;
  throw ShapeError(
      "the dataset does not fit shape_meta: {}.\n  shape_meta: {}\n  the dataset: {}\nGive keys "
      "other names with dataset.params.keys.",
      fmt::join(problems, ", "), Describe(wanted), Describe(dataset.keys));
}

std::string Describe(const KeySpec& key) {
  return fmt::format("{} {} {}", Name(key.type), Name(key.dtype), ToString(key.shape));
}

std::string Describe(std::span<const KeySpec> keys) {
  std::vector<std::string> texts;
  for (const KeySpec& key : keys) texts.push_back(fmt::format("{}: {}", key.name, Describe(key)));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string RateText(double fps) {
  return fps > 0.0 ? fmt::format("{:g} Hz", fps) : "rate unknown";
}

}  // namespace dp_bench::data
