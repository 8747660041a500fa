#include "plugin/env_message.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/document.h"
#include "config/json_source.h"

namespace dp_bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KeySpec, name, type, shape, dtype)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShapeMeta, obs, action)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetricSpec, name, aggregate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PerturbationSpec, name, low, high, strength, is_visual)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EnvSpec, shape_meta, action_low, action_high, control_hz,
                                   max_steps, metrics, tasks, obs_modes, perturbations, abilities)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CameraParameters, name, fx, fy, cx, cy, camera_to_world)

namespace plugin {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EnvOffer, spec, params)

namespace {

using Json = nlohmann::json;

Json ParseCbor(std::span<const std::byte> bytes) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::from_cbor(begin, begin + bytes.size());
}

}  // namespace

std::vector<std::uint8_t> Encode(const EnvOffer& offer) { return Json::to_cbor(offer); }
EnvOffer DecodeOffer(std::span<const std::byte> bytes) { return ParseCbor(bytes); }
std::vector<std::uint8_t> Encode(const CameraParameters& camera) { return Json::to_cbor(camera); }
CameraParameters DecodeCamera(std::span<const std::byte> bytes) { return ParseCbor(bytes); }

namespace {

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

// Splits Where(), which is "file:line: dotted.key", or has no key for a whole document.
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

}  // namespace plugin
}  // namespace dp_bench
