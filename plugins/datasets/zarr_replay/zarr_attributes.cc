#include "zarr_attributes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::zarr_replay {
namespace {

using Json = nlohmann::json;

constexpr const char* kFile = ".zattrs";
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;  // it may list a million episodes
constexpr int kMaxAttributeDepth = 64;

[[noreturn]] void Fail(const Store& store, const std::string& what) {
  throw Error(ErrorCode::kData, fmt::format("{}: {}", store.Describe(kFile), what));
}

Json Parse(const Store& store) {
  std::vector<std::byte> bytes;
  store.Read(kFile, kMaxBytes, &bytes);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto limit_depth = [&store](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxAttributeDepth)
      Fail(store, fmt::format("nested deeper than {} levels", kMaxAttributeDepth));
    return true;
  };
  try {
    return Json::parse(text, text + bytes.size(), limit_depth);
  } catch (const Json::exception& error) {
    Fail(store, fmt::format("is not JSON: {}", error.what()));
  }
}

}  // namespace

ZarrAttributes ReadZarrAttributes(const Store& store) {
  ZarrAttributes attributes;
  if (!store.Peek(kFile, {})) return attributes;
  const Json json = Parse(store);
  if (!json.is_object()) Fail(store, "is not a JSON object");

  if (const auto fps = json.find("fps"); fps != json.end()) {
    const double value = fps->is_number() ? fps->get<double>() : 0.0;
    if (!(value >= kMinFps && value <= kMaxFps)) {
      Fail(store,
           fmt::format("fps is {}; wanted a number from {} to {}", fps->dump(), kMinFps, kMaxFps));
    }
    attributes.fps = value;
  }
  if (const auto complete = json.find("complete"); complete != json.end()) {
    if (!complete->is_boolean()) Fail(store, "complete is neither true nor false");
    attributes.is_growing = !complete->get<bool>();
  }
  return attributes;
}

}  // namespace dp_bench::zarr_replay
