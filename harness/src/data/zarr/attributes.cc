#include "data/zarr/attributes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "data/reader/keyed_dataset.h"
#include "data/zarr/metadata.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {
namespace {

using Json = nlohmann::json;

constexpr int kMaxAttributeDepth = 64;
constexpr const char* kAttributesMember = "attributes";

[[noreturn]] void RefuseAttributes(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::kData, fmt::format("{}: {}", file, what));
}

// The two attributes. Others are dropped as they are read: lists of a million episodes would take
// ten times the memory of their text.
Json PickAttributes(std::string_view text, const std::string& file, bool is_node) {
  const int attribute_depth = is_node ? 2 : 1;  // in a zarr.json, the attributes are a member
  const auto pick = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMaxAttributeDepth) {
      RefuseAttributes(file, fmt::format("nested deeper than {} levels", kMaxAttributeDepth));
    }
    if (event == Json::parse_event_t::value) return depth <= attribute_depth;
    if (event != Json::parse_event_t::key) return true;
    if (depth < attribute_depth) return parsed == kAttributesMember;
    return depth == attribute_depth && (parsed == kFpsAttribute || parsed == kCompleteAttribute);
  };
  Json root;
  try {
    root = Json::parse(text, pick);
  } catch (const Json::exception& fault) {
    constexpr std::size_t kMaxReason = 300;  // it quotes the text, which may be huge
    RefuseAttributes(
        file, fmt::format("is not JSON: {}", std::string_view(fault.what()).substr(0, kMaxReason)));
  }
  if (!root.is_object()) RefuseAttributes(file, "is not a JSON object");
  if (!is_node) return root;
  const auto own = root.find(kAttributesMember);
  return own != root.end() && own->is_object() ? *own : Json::object();
}

}  // namespace

ZarrAttributes ParseZarrAttributes(std::string_view text, const std::string& file, bool is_node) {
  const Json picked = PickAttributes(text, file, is_node);
  ZarrAttributes attributes;
  if (const auto fps = picked.find(kFpsAttribute); fps != picked.end()) {
    const double value = fps->is_number() ? fps->get<double>() : 0.0;
    if (!(value >= reader::kMinFps && value <= reader::kMaxFps)) {
      RefuseAttributes(
          file, fmt::format("fps is {}; expected a number from {} to {}",
                            fps->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60),
                            reader::kMinFps, reader::kMaxFps));
    }
    attributes.fps = value;
  }
  if (const auto complete = picked.find(kCompleteAttribute); complete != picked.end()) {
    if (!complete->is_boolean()) RefuseAttributes(file, "complete is neither true nor false");
    attributes.is_growing = !complete->get<bool>();
  }
  return attributes;
}

ZarrAttributes ReadZarrAttributes(const Store& store, std::uint64_t max_bytes) {
  for (const char* file : {kAttributesFile, kNodeFile}) {
    if (!store.Peek(file, {})) continue;
    std::vector<std::byte> bytes;
    store.Read(file, max_bytes, &bytes);
    return ParseZarrAttributes({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                               store.Describe(file), file == kNodeFile);
  }
  return {};
}

}  // namespace dp_bench::zarr
