// Overrides are merged like a file that holds this one key, with "command line: ..." as its origin.
#include "config/overrides.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "core/console.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOverrideOrigin = "command line: ";
constexpr std::string_view kOptionOrigin = "command line: --";  // such as --dataset

std::vector<std::string> SplitDotted(std::string_view path, const std::string& override_text) {
  std::vector<std::string> keys(1);
  for (const char c : path) {
    if (c == '.') {
      keys.emplace_back();
    } else {
      keys.back() += c;
    }
  }
  for (const std::string& key : keys) {
    if (key.empty()) {
      throw Error(
          ErrorCode::kUsage,
          fmt::format("override '{}': wanted key.key=value, found an empty key", override_text));
    }
  }
  if (keys.size() >= kMaxConfigDepth) {
    throw Error(ErrorCode::kUsage, fmt::format("override '{:.80}...': nested deeper than {} levels",
                                               override_text, kMaxConfigDepth));
  }
  return keys;
}

// Neither its key nor its value could be written into a resolved config.
void RequireUtf8(const std::string& override_text) {
  try {
    Json(override_text).dump();
  } catch (const Json::exception&) {
    throw Error(ErrorCode::kUsage, "an override is not valid UTF-8");
  }
}

Json ParseValue(const std::string& text, const Json* existing, const std::string& origin) {
  Json value = text;
  // the value goes through the same reader as files, for its limits and duplicate keys
  if (Json::accept(text)) {
    Json parsed = ParseJsonSource(fmt::format("{{\"value\": {}}}", text), origin).value["value"];
    const bool stays_text = existing && existing->is_string() && !parsed.is_null();
    if (!stays_text || parsed.is_string()) value = std::move(parsed);
  }
  return value;
}

// Some keys are a switch or a factor (env_runner.realtime); of others their reader refuses one.
bool IsNumberOrSwitch(const Json& value) { return value.is_number() || value.is_boolean(); }

bool SameType(const Json& a, const Json& b) {
  return a.type() == b.type() || (IsNumberOrSwitch(a) && IsNumberOrSwitch(b)) || a.is_null() ||
         b.is_null();
}

}  // namespace

void ApplyOverride(const std::string& override_text, JsonSource* source) {
  RequireUtf8(override_text);
  const std::size_t equals = override_text.find('=');
  if (equals == std::string::npos) {
    throw Error(ErrorCode::kUsage,
                fmt::format("override '{}': wanted key.key=value", override_text));
  }
  const std::string origin = std::string(kOverrideOrigin) + Printable(override_text);
  const std::vector<std::string> keys = SplitDotted(override_text.substr(0, equals), override_text);

  // look for the key as far as it exists
  const Json* existing = &source->value;
  std::string pointer;
  for (const std::string& key : keys) {
    if (existing && existing->is_object()) {
      const auto member = existing->find(key);
      existing = member == existing->end() ? nullptr : &*member;
    } else if (existing && !existing->is_null()) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("{}: '{}' is not an object but {}, set at {}", origin,
                              DottedKey(pointer), Describe(*existing), source->origins[pointer]));
    }
    pointer = ChildPointer(pointer, key);
  }

  Json value = ParseValue(override_text.substr(equals + 1), existing, origin);
  if (existing && !SameType(*existing, value)) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: wanted the type of {}, set at {}; found {}", origin,
                            Describe(*existing), source->origins[pointer], Describe(value)));
  }

  // wrap the value in its objects, from the inside out
  JsonSource change;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    Json object = Json::object();
    object[*key] = std::move(value);
    value = std::move(object);
  }
  change.value = std::move(value);
  std::string place;
  for (const std::string& key : keys) {
    place = ChildPointer(place, key);
    change.origins[place] = origin;
  }
  MergeJsonSource(std::move(change), source);
}

bool IsOverrideOrigin(std::string_view origin) {
  return origin.starts_with(kOverrideOrigin) && !origin.starts_with(kOptionOrigin);
}

}  // namespace dp_bench
