#include "plugin/env_message.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/document.h"
#include "config/json_source.h"

namespace dp_bench::plugin {

namespace {

using Json = nlohmann::json;

Json ParseCbor(std::span<const std::byte> bytes) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::from_cbor(begin, begin + bytes.size());
}

Json ToJson(const KeySpec& key) {
  return {{"name", key.name}, {"type", key.type}, {"shape", key.shape}, {"dtype", key.dtype}};
}

KeySpec KeyFrom(const Json& json) {
  return {.name = json.at("name"),
          .type = json.at("type").get<KeyType>(),
          .shape = json.at("shape").get<Shape>(),
          .dtype = json.at("dtype").get<DType>()};
}

Json ToJson(const EnvAbilities& abilities) {
  return {{"state_size", abilities.state_size},
          {"has_expert", abilities.has_expert},
          {"has_pointer_control", abilities.has_pointer_control},
          {"cameras", abilities.cameras},
          {"n_marks", abilities.n_marks}};
}

EnvAbilities AbilitiesFrom(const Json& json) {
  return {.state_size = json.at("state_size"),
          .has_expert = json.at("has_expert"),
          .has_pointer_control = json.at("has_pointer_control"),
          .cameras = json.at("cameras").get<std::vector<std::string>>(),
          .n_marks = json.at("n_marks")};
}

Json ToJson(const EnvSpec& spec) {
  Json obs = Json::array();
  for (const KeySpec& key : spec.shape_meta.obs) obs.push_back(ToJson(key));
  Json metrics = Json::array();
  for (const MetricSpec& metric : spec.metrics) {
    metrics.push_back({{"name", metric.name}, {"aggregate", metric.aggregate}});
  }
  Json perturbations = Json::array();
  for (const PerturbationSpec& perturbation : spec.perturbations) {
    perturbations.push_back({{"name", perturbation.name},
                             {"low", perturbation.low},
                             {"high", perturbation.high},
                             {"strength", perturbation.strength},
                             {"is_visual", perturbation.is_visual}});
  }
  return {{"obs", obs},
          {"action", ToJson(spec.shape_meta.action)},
          {"action_low", spec.action_low},
          {"action_high", spec.action_high},
          {"control_hz", spec.control_hz},
          {"max_steps", spec.max_steps},
          {"metrics", metrics},
          {"tasks", spec.tasks},
          {"obs_modes", spec.obs_modes},
          {"perturbations", perturbations},
          {"abilities", ToJson(spec.abilities)}};
}

EnvSpec SpecFrom(const Json& json) {
  EnvSpec spec;
  for (const Json& key : json.at("obs")) spec.shape_meta.obs.push_back(KeyFrom(key));
  spec.shape_meta.action = KeyFrom(json.at("action"));
  spec.action_low = json.at("action_low").get<std::vector<float>>();
  spec.action_high = json.at("action_high").get<std::vector<float>>();
  spec.control_hz = json.at("control_hz");
  spec.max_steps = json.at("max_steps");
  for (const Json& metric : json.at("metrics")) {
    spec.metrics.push_back({metric.at("name"), metric.at("aggregate").get<Aggregate>()});
  }
  spec.tasks = json.at("tasks").get<std::vector<std::string>>();
  spec.obs_modes = json.at("obs_modes").get<std::vector<std::string>>();
  for (const Json& perturbation : json.at("perturbations")) {
    spec.perturbations.push_back({.name = perturbation.at("name"),
                                  .low = perturbation.at("low"),
                                  .high = perturbation.at("high"),
                                  .strength = perturbation.at("strength"),
                                  .is_visual = perturbation.at("is_visual")});
  }
  spec.abilities = AbilitiesFrom(json.at("abilities"));
  return spec;
}

}  // namespace

const char* Name(EnvCommand command) {
  switch (command) {
    case EnvCommand::kDescribe:
      return "Describe";
    case EnvCommand::kCreate:
      return "Create";
    case EnvCommand::kReset:
      return "Reset";
    case EnvCommand::kStep:
      return "Step";
    case EnvCommand::kObserve:
      return "Observe";
    case EnvCommand::kRender:
      return "Render";
    case EnvCommand::kGetState:
      return "GetState";
    case EnvCommand::kSetState:
      return "SetState";
    case EnvCommand::kBegin:
      return "Expert::Begin";
    case EnvCommand::kAct:
      return "Expert::Act";
    case EnvCommand::kPointerAction:
      return "PointerAction";
    case EnvCommand::kCameraParameters:
      return "Parameters";
    case EnvCommand::kRenderCamera:
      return "RenderCamera";
    case EnvCommand::kStateMarks:
      return "StateMarks";
    case EnvCommand::kActionMarks:
      return "ActionMarks";
    case EnvCommand::kQuit:
      return "its end";
  }
  return "an unknown call";
}

std::vector<std::uint8_t> Encode(const EnvOffer& offer) {
  return Json::to_cbor({{"spec", ToJson(offer.spec)}, {"params", offer.params}});
}

EnvOffer DecodeOffer(std::span<const std::byte> bytes) {
  const Json json = ParseCbor(bytes);
  return {.spec = SpecFrom(json.at("spec")), .params = json.at("params")};
}

std::vector<std::uint8_t> Encode(const CameraParameters& camera) {
  return Json::to_cbor({{"name", camera.name},
                        {"fx", camera.fx},
                        {"fy", camera.fy},
                        {"cx", camera.cx},
                        {"cy", camera.cy},
                        {"camera_to_world", camera.camera_to_world}});
}

CameraParameters DecodeCamera(std::span<const std::byte> bytes) {
  const Json json = ParseCbor(bytes);
  return {.name = json.at("name"),
          .fx = json.at("fx"),
          .fy = json.at("fy"),
          .cx = json.at("cx"),
          .cy = json.at("cy"),
          .camera_to_world = json.at("camera_to_world").get<std::array<double, 16>>()};
}

namespace {

using Json = nlohmann::json;
using Origins = std::map<std::string, std::string>;  // by pointer, "" is the config itself

bool HoldsKeys(const Json& value) {
  if (value.is_object()) return true;
  return value.is_array() && !value.empty() && std::ranges::all_of(value, &Json::is_object);
}

// Calls `body(key, value)` for the members of an object, or of a list as "0", "1", ...
template <class Body>
void ForEachKey(const Json& value, const Body& body) {
  for (const auto& item : value.items()) body(item.key(), item.value());
}

// Where() is "file:line: dotted.key", and without a key for a whole document.
std::pair<std::string, std::string> SplitPlace(const std::string& where) {
  const std::size_t colon = where.rfind(": ");
  if (colon == std::string::npos) return {where, ""};
  return {where.substr(0, colon), where.substr(colon + 2)};
}

void CollectOrigins(const Config& config, const Json& values, const std::string& pointer,
                    Origins* origins) {
  ForEachKey(values, [&](const std::string& key, const Json& value) {
    const std::string child = config::ChildPointer(pointer, key);
    (*origins)[child] = SplitPlace(config.Where(key)).first;
    if (HoldsKeys(value)) CollectOrigins(config.Sub(key), value, child, origins);
  });
}

void AdoptList(const Config& config, const std::string& key, const Json& list) {
  if (!list.empty() && std::ranges::all_of(list, &Json::is_string)) {
    config.Get(key, list.get<std::vector<std::string>>());
  } else if (std::ranges::all_of(list, &Json::is_number_integer)) {
    config.Get(key, list.get<std::vector<std::int64_t>>());
  } else {
    config.Get(key, list.get<std::vector<double>>());
  }
}

}  // namespace

Json TransferConfig(const Config& config) {
  const auto [origin, dotted] = SplitPlace(config.Where());
  Json values = Json::parse(config.ToJson());
  Origins origins = {{"", origin}};
  CollectOrigins(config, values, "", &origins);
  return {{"place", dotted}, {"values", std::move(values)}, {"origins", origins}};
}

Config ReceiveConfig(const Json& transfer) {
  // the same pointers as in the document it came from, so that messages name the same keys
  std::string pointer;
  std::string_view dotted = transfer.at("place").get_ref<const std::string&>();
  while (!dotted.empty()) {
    const std::size_t end = std::min(dotted.find('.'), dotted.size());
    pointer = config::ChildPointer(pointer, dotted.substr(0, end));
    dotted.remove_prefix(std::min(end + 1, dotted.size()));
  }
  config::JsonSource source;
  source.value[Json::json_pointer(pointer)] = transfer.at("values");
  for (const auto& [place, origin] : transfer.at("origins").get<Origins>()) {
    source.origins[pointer + place] = origin;
  }
  return Config(std::make_shared<config::ConfigDocument>(std::move(source)), pointer);
}

void AdoptReads(const Config& config, const Json& read) {
  ForEachKey(read, [&](const std::string& key, const Json& value) {
    if (HoldsKeys(value)) {
      AdoptReads(config.Sub(key), value);
    } else if (value.is_array()) {
      AdoptList(config, key, value);
    } else if (value.is_null()) {
      config.GetOptional<bool>(key);
    } else if (value.is_boolean()) {
      config.Get(key, value.get<bool>());
    } else if (value.is_string()) {
      config.Get(key, value.get<std::string>());
    } else if (value.is_number_unsigned()) {
      config.Get(key, value.get<std::uint64_t>());
    } else if (value.is_number_integer()) {
      config.Get(key, value.get<std::int64_t>());
    } else {
      config.Get(key, value.get<double>());
    }
  });
}

}  // namespace dp_bench::plugin
