// See processor.h.
#include "run/lerobot/processor.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "dp_bench/error.h"

namespace dp_bench::run {
namespace {

using OrderedJson = nlohmann::ordered_json;

void RequireFileName(const core::JsonView& step, const std::string& name) {
  const bool is_name = !name.empty() && name.front() != '.' &&
                       name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (is_name) return;
  step.Fail(fmt::format("state_file: expected the name of a file, found '{}'", name));
}

// Steps that move data or rename what the robot sends, and change no number.
bool ChangesNothing(std::string_view step) {
  return step == "rename_observations_processor" || step == "to_batch_processor" ||
         step == "device_processor";
}

// nlohmann::json sorts the features, hence the ordered one.
std::vector<std::string> CamerasInOrder(const core::JsonView& features,
                                        const OrderedJson& ordered) {
  std::vector<std::string> cameras;
  for (const auto& item : ordered.items()) {
    const auto type = features.At(item.key()).Get<std::string>("type");
    if (type == Name(LerobotFeatureType::kVisual)) cameras.push_back(item.key());
  }
  return cameras;
}

}  // namespace

LerobotProcessor ParseLerobotProcessor(std::string_view text, const std::filesystem::path& path,
                                       std::string_view wanted_step) {
  const std::string what = fmt::format("'{}'", path.string());
  const nlohmann::json json = core::ParseJson(text, what, ErrorCode::kCheckpoint);
  const core::JsonView file(json, what, ErrorCode::kCheckpoint);
  const OrderedJson ordered = OrderedJson::parse(text);
  LerobotProcessor processor;
  const std::vector<core::JsonView> steps = file.Elements("steps");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const core::JsonView& step = steps[i];
    const auto kind = step.Get<std::string>("registry_name");
    if (ChangesNothing(kind)) continue;
    if (kind != wanted_step || !processor.state_file.empty()) {
      step.Fail(fmt::format("expected one {}, found {}: dp_bench does not know what it computes",
                            wanted_step, kind));
    }
    const core::JsonView config = step.At("config");
    processor.norm_map = ReadLerobotNormMap(config.At("norm_map"));
    processor.eps = config.Get<double>("eps");
    processor.cameras = CamerasInOrder(config.At("features"),
                                       ordered.at("steps").at(i).at("config").at("features"));
    processor.state_file = step.Get<std::string>("state_file");
    RequireFileName(step, processor.state_file);
  }
  if (processor.state_file.empty()) file.Fail(fmt::format("expected a step {}", wanted_step));
  return processor;
}

}  // namespace dp_bench::run
