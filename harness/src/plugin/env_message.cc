#include "plugin/env_message.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "config/document.h"
#include "config/json_source.h"

namespace dp_bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CameraParameters, name, fx, fy, cx, cy, camera_to_world)

namespace plugin {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EnvOffer, spec, params)

namespace {

using Json = nlohmann::json;

Json ParseCbor(std::span<const std::byte> bytes) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::from_cbor(begin, begin + bytes.size());
}

using Origins = std::map<std::string, std::string>;  // by pointer, "" is the config itself

// Splits Where(), which is "file:line: dotted.key", or has no key for a whole document.
std::pair<std::string, std::string> SplitPlace(const std::string& where) {
  const std::size_t colon = where.rfind(": ");
  if (colon == std::string::npos) return {where, ""};
  return {where.substr(0, colon), where.substr(colon + 2)};
}

void CollectOrigins(const Config& config, const Json& values, const std::string& pointer,
                    Origins* origins) {
  for (const auto& item : values.items()) {
    const std::string child = config::ChildPointer(pointer, item.key());
    (*origins)[child] = SplitPlace(config.Where(item.key())).first;
    if (config::HoldsKeys(item.value())) {
      CollectOrigins(config.Sub(item.key()), item.value(), child, origins);
    }
  }
}

}  // namespace

std::vector<std::uint8_t> Encode(const EnvOffer& offer) { return Json::to_cbor(offer); }
EnvOffer DecodeOffer(std::span<const std::byte> bytes) {
  const auto text = std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Json offer = text.starts_with('{') ? Json::parse(text) : ParseCbor(bytes);
  Json abilities = EnvAbilities();
  abilities.update(offer.at("spec").at("abilities"));
  offer["spec"]["abilities"] = abilities;
  return offer;
}
std::vector<std::uint8_t> Encode(const CameraParameters& camera) { return Json::to_cbor(camera); }
CameraParameters DecodeCamera(std::span<const std::byte> bytes) { return ParseCbor(bytes); }

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

}  // namespace plugin
}  // namespace dp_bench
