#include "isolate/env_message.h"

#include <array>

namespace dp_bench {
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

Json ToJson(const EnvSpec& spec) {
  Json obs = Json::array();
  for (const KeySpec& key : spec.shape_meta.obs) obs.push_back(ToJson(key));
  Json metrics = Json::array();
  for (const MetricSpec& metric : spec.metrics) {
    metrics.push_back({{"name", metric.name}, {"aggregate", metric.aggregate}});
  }
  return {{"obs", obs},
          {"action", ToJson(spec.shape_meta.action)},
          {"action_low", spec.action_low},
          {"action_high", spec.action_high},
          {"control_hz", spec.control_hz},
          {"max_steps", spec.max_steps},
          {"metrics", metrics}};
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
  return spec;
}

}  // namespace

const char* Name(Command command) {
  switch (command) {
    case Command::kCreate:
      return "Create";
    case Command::kReset:
      return "Reset";
    case Command::kStep:
      return "Step";
    case Command::kObserve:
      return "Observe";
    case Command::kRender:
      return "Render";
    case Command::kGetState:
      return "GetState";
    case Command::kSetState:
      return "SetState";
    case Command::kBegin:
      return "Expert::Begin";
    case Command::kAct:
      return "Expert::Act";
    case Command::kPointerAction:
      return "PointerAction";
    case Command::kCameraParameters:
      return "Parameters";
    case Command::kRenderCamera:
      return "RenderCamera";
    case Command::kStateMarks:
      return "StateMarks";
    case Command::kActionMarks:
      return "ActionMarks";
    case Command::kQuit:
      return "its end";
  }
  return "an unknown call";
}

EnvOffer OfferOf(Env& env) {
  EnvOffer offer;
  offer.spec = env.spec();
  if (const StateAccess* access = env.state_access()) offer.state_size = access->state_size();
  offer.has_expert = env.expert() != nullptr;
  offer.has_pointer_control = env.pointer_control() != nullptr;
  if (const CameraAccess* cameras = env.camera_access()) {
    offer.cameras.assign(cameras->camera_names().begin(), cameras->camera_names().end());
  }
  if (const PictureMarks* marks = env.picture_marks()) offer.n_marks = marks->n_marks();
  return offer;
}

std::vector<std::uint8_t> Encode(const EnvOffer& offer) {
  return Json::to_cbor({{"spec", ToJson(offer.spec)},
                        {"state_size", offer.state_size ? Json(*offer.state_size) : Json()},
                        {"has_expert", offer.has_expert},
                        {"has_pointer_control", offer.has_pointer_control},
                        {"cameras", offer.cameras},
                        {"n_marks", offer.n_marks},
                        {"params", offer.params}});
}

EnvOffer DecodeOffer(std::span<const std::byte> bytes) {
  const Json json = ParseCbor(bytes);
  EnvOffer offer;
  offer.spec = SpecFrom(json.at("spec"));
  if (!json.at("state_size").is_null()) offer.state_size = json.at("state_size");
  offer.has_expert = json.at("has_expert");
  offer.has_pointer_control = json.at("has_pointer_control");
  offer.cameras = json.at("cameras").get<std::vector<std::string>>();
  offer.n_marks = json.at("n_marks");
  offer.params = json.at("params");
  return offer;
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

}  // namespace dp_bench
