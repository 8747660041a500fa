#include "serve/key_map.h"

#include <algorithm>
#include <utility>

#include "core/errors.h"

namespace dp_bench::serve {
namespace {

constexpr std::int64_t kMaxSize = 8192;
constexpr const char* kLayouts[] = {"hwc", "chw"};

void ReadSize(const Config& config, InputKey* key) {
  const auto size = config.GetOptional<std::vector<std::int64_t>>(
      "size", "[height, width] of images in a message, which are resized; null = the policy's");
  if (!size) return;
  if (size->size() != 2 || std::ranges::min(*size) < 1 || std::ranges::max(*size) > kMaxSize) {
    throw ConfigError("{}: expected [height, width], each from 1 to {}", config.Where("size"),
                      kMaxSize);
  }
  key->size = {(*size)[0], (*size)[1]};
}

InputKey ReadInputKey(const Config& config, const InputKey& by_default) {
  InputKey key = by_default;
  key.path = config.Get<std::string>(
      "key", key.path,
      "path in the message; the default depends on the protocol (docs/serving.md)");
  if (key.spec.is_image()) {
    const std::string layout =
        config.GetChoice("layout",
                         key.is_channels_first ? std::vector<std::string>{kLayouts[1], kLayouts[0]}
                                               : std::vector<std::string>{kLayouts[0], kLayouts[1]},
                         "Of images: hwc or chw");
    key.is_channels_first = layout == kLayouts[1];
    if (key.spec.type == KeyType::kRgb) ReadSize(config, &key);
  } else if (const auto first = config.GetOptionalInRange(
                 "first", 0, std::int64_t{1} << 20, "The key begins at this number of the array")) {
    key.first = *first;
  }
  return key;
}

wire::List ToList(const Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

Shape InputKey::MessageShape() const {
  Shape shape = spec.StorageShape();
  if (size) std::ranges::copy(*size, shape.begin());
  if (is_channels_first) shape = {shape[2], shape[0], shape[1]};
  return shape;
}

KeyMap KeyMap::FromConfig(const Config& config, const KeyMap& defaults) {
  KeyMap keys = defaults;
  const Config obs = config.Sub("obs");
  for (InputKey& key : keys.obs) {
    if (obs.Has(key.spec.name)) key = ReadInputKey(obs.Sub(key.spec.name), key);
  }
  keys.actions = config.Get<std::string>("actions", keys.actions, "The key of the answer");
  keys.instruction = config.Get<std::string>("instruction", keys.instruction,
                                             "Where a message has what to do, in words");
  keys.is_nested = config.Get<bool>("nested", keys.is_nested, "'/' in a key is a map in a map");
  keys.ignored = config.Get<std::vector<std::string>>(
      "ignored", keys.ignored, "Paths that the policy does not read, such as prompt");
  config.RejectUnread();
  return keys;
}

const wire::Value* FindPath(const wire::Map& map, std::string_view path) {
  if (const wire::Value* const value = map.Find(path)) return value;
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const auto* const inner = map.Find<wire::Map>(path.substr(0, slash));
    if (inner == nullptr) continue;
    if (const auto* const value = FindPath(*inner, path.substr(slash + 1))) return value;
  }
  return nullptr;
}

wire::Map Describe(const KeyMap& keys) {
  wire::Map obs;
  for (const InputKey& key : keys.obs) {
    const Shape shape = key.MessageShape();
    wire::Map entry = {{"key", key.path},
                       {"type", std::string(Name(key.spec.type))},
                       {"dtype", std::string(Name(key.spec.dtype))},
                       {"shape", ToList(shape)}};
    if (key.spec.is_image()) {
      entry.Add("layout", std::string(kLayouts[key.is_channels_first ? 1 : 0]));
    }
    if (key.first) entry.Add("first", *key.first);
    obs.Add(key.spec.name, std::move(entry));
  }
  return {{"obs", std::move(obs)}, {"actions", keys.actions}};
}

}  // namespace dp_bench::serve
