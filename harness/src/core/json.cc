#include "core/json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/atomic_file.h"
#include "core/errors.h"

namespace dp_bench::core {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxReason = 300;  // the reason quotes the text, which may be huge
constexpr std::size_t kMaxShownValue = 60;

// The result of one pass over the text. The parser decides later whether it is JSON at all.
struct TextScan {
  std::size_t too_deep = std::string_view::npos;  // where nesting exceeds kMaxJsonDepth
  std::size_t n_members = 0;                      // of all objects together, if it is JSON
};

TextScan Scan(std::string_view text) {
  TextScan scan;
  int depth = 0;
  bool is_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      if (c == '"') is_string = false;
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) {
        scan.too_deep = i;
        break;
      }
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':') {
      ++scan.n_members;
    }
  }
  return scan;
}

std::size_t CountMembers(const Json& json) {
  if (!json.is_structured()) return 0;
  std::size_t n = json.is_object() ? json.size() : 0;
  for (const Json& child : json) n += CountMembers(child);
  return n;
}

[[noreturn]] void ThrowTooDeep(std::string_view text, std::size_t position, std::string_view what,
                               ErrorCode code) {
  const std::string_view before = text.substr(0, position);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t column = position - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  throw FormatError(code, "{}:{}:{}: nested deeper than {} levels", what, line, column,
                    kMaxJsonDepth);
}

std::string ReasonOf(const Json::exception& fault) {
  std::string_view reason = fault.what();  // "[json.exception.parse_error.101] parse error at ..."
  if (const std::size_t end = reason.find("] "); end != std::string_view::npos) {
    reason.remove_prefix(end + 2);
  }
  return std::string(reason.substr(0, kMaxReason));
}

// The members that the text is in at `position`, such as "features.action", for messages.
std::string PlaceIn(std::string_view text, std::size_t position) {
  std::vector<std::string> keys;
  std::size_t begin = 0;  // of the last string
  std::size_t end = 0;
  for (std::size_t i = 0; i < position; ++i) {
    const char c = text[i];
    if (c == '"') {
      begin = ++i;
      while (i < position && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      end = std::min(i, position);
    } else if (c == '{') {
      keys.emplace_back();
    } else if (c == '}' && !keys.empty()) {
      keys.pop_back();
    } else if (c == ':' && !keys.empty()) {
      keys.back() = text.substr(begin, end - begin);
    }
  }
  return fmt::format("{}", fmt::join(keys, "."));
}

// Python's json writes numbers that JSON does not have. Describes the one at the byte where the
// parser stopped; empty if there is none.
std::string PythonNumberAt(std::string_view text, std::size_t byte) {
  const std::size_t word = text.find_last_of(" \t\r\n,:[-", std::min(byte, text.size()) - 1) + 1;
  for (const std::string_view number : {"NaN", "Infinity"}) {
    if (!text.substr(word).starts_with(number)) continue;
    return fmt::format("'{}' has the value {}, which Python writes and JSON does not have",
                       PlaceIn(text, word), number);
  }
  return "";
}

std::string Show(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  return ShortDump(value);
}

std::string Joined(const std::string& place, std::string_view key) {
  return place.empty() ? std::string(key) : fmt::format("{}.{}", place, key);
}

template <class T>
struct IsVector : std::false_type {};
template <class E>
struct IsVector<std::vector<E>> : std::true_type {};

template <class Integer>
std::optional<Integer> ToInteger(const Json& value) {
  using Limits = std::numeric_limits<Integer>;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (std::cmp_less_equal(number, Limits::max())) return static_cast<Integer>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (std::cmp_greater_equal(number, Limits::min()) &&
        std::cmp_less_equal(number, Limits::max())) {
      return static_cast<Integer>(number);
    }
  }
  return std::nullopt;
}

}  // namespace

std::string ShortDump(const Json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kMaxShownValue) {
    text.resize(kMaxShownValue);
    text += "...";
  }
  return text;
}

Json ValueAt(const Json& json, const std::string& pointer) {
  const Json::json_pointer place(pointer);
  return json.is_object() && json.contains(place) ? json.at(place) : Json();
}

std::string TextAt(const Json& json, const std::string& pointer, const std::string& otherwise) {
  const Json value = ValueAt(json, pointer);
  return value.is_string() ? value.get<std::string>() : otherwise;
}

Json ParseJson(std::string_view text, std::string_view what, ErrorCode code) {
  const TextScan scan = Scan(text);
  if (scan.too_deep != std::string_view::npos) ThrowTooDeep(text, scan.too_deep, what, code);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& fault) {
    const std::string number = text.empty() ? "" : PythonNumberAt(text, fault.byte);
    throw FormatError(code, "{}: not JSON: {}", what, number.empty() ? ReasonOf(fault) : number);
  } catch (const Json::exception& fault) {
    throw FormatError(code, "{}: not JSON: {}", what, ReasonOf(fault));
  }
  if (!json.is_object()) {
    throw FormatError(code, "{}: expected a JSON object, found {}", what, Show(json));
  }
  // the parser keeps the last of several equal keys; another reader may keep the first
  if (CountMembers(json) != scan.n_members) {
    throw FormatError(code, "{}: an object has the same key twice", what);
  }
  return json;
}

Json ReadJsonFile(const std::filesystem::path& path, std::size_t max_bytes, ErrorCode code) {
  return ParseJson(ReadTextFile(path, max_bytes), path.string(), code);
}

Json TryParseJson(std::string_view text) {
  if (Scan(text).too_deep != std::string_view::npos) return nullptr;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json(nullptr);
}

JsonView::JsonView(const Json& json, std::string_view what, ErrorCode code)
    : json_(&json), what_(what), code_(code) {}

JsonView::JsonView(const Json& json, const JsonView& parent, std::string place)
    : json_(&json), what_(parent.what_), code_(parent.code_), place_(std::move(place)) {}

void JsonView::Fail(std::string_view fault) const {
  throw Error(code_, place_.empty() ? fmt::format("{}: {}", what_, fault)
                                    : fmt::format("{}: {}: {}", what_, place_, fault));
}

bool JsonView::Has(std::string_view key) const {
  const auto member = json_->is_object() ? json_->find(key) : json_->end();
  return member != json_->end() && !member->is_null();
}

const Json& JsonView::Member(std::string_view key) const {
  if (!json_->is_object()) Fail("expected an object, found {}", Show(*json_));
  const auto member = json_->find(key);
  if (member == json_->end()) Fail("the key '{}' is missing", key);
  return *member;
}

JsonView JsonView::At(std::string_view key) const {
  return JsonView(Member(key), *this, Joined(place_, key));
}

std::vector<JsonView> JsonView::Elements(std::string_view key) const {
  const JsonView array = At(key);
  if (!array.json_->is_array()) array.Fail("expected an array, found {}", Show(*array.json_));
  std::vector<JsonView> elements;
  elements.reserve(array.json_->size());
  for (const Json& element : *array.json_) {
    elements.push_back(
        JsonView(element, *this, Joined(array.place_, std::to_string(elements.size()))));
  }
  return elements;
}

std::map<std::string, JsonView> JsonView::Members() const {
  if (!json_->is_object()) Fail("expected an object, found {}", Show(*json_));
  std::map<std::string, JsonView> members;
  for (const auto& [key, value] : json_->items()) {
    members.emplace(key, JsonView(value, *this, Joined(place_, key)));
  }
  return members;
}

template <class T>
T ReadJson(const Json& value, const RefuseJson& refuse) {
  const auto require = [&](bool is_wanted, std::string_view wanted) {
    if (!is_wanted) refuse(wanted, value);
  };
  if constexpr (IsVector<T>::value) {
    require(value.is_array(), "an array");
    T values;
    values.reserve(value.size());
    for (const Json& element : value) {
      values.push_back(ReadJson<typename T::value_type>(element, refuse));
    }
    return values;
  } else if constexpr (std::is_same_v<T, bool>) {
    require(value.is_boolean(), "true or false");
    return value.get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    require(value.is_string(), "a string");
    return value.get<std::string>();
  } else if constexpr (std::is_floating_point_v<T>) {
    const double number = value.is_number() ? value.get<double>() : HUGE_VAL;
    require(std::abs(number) <= static_cast<double>(std::numeric_limits<T>::max()), "a number");
    return static_cast<T>(number);
  } else {
    using Limits = std::numeric_limits<T>;
    require(value.is_number_integer(), "an integer");
    const std::optional<T> number = ToInteger<T>(value);
    require(number.has_value(),
            fmt::format("an integer from {} to {}", Limits::min(), Limits::max()));
    return *number;
  }
}

template <class T>
T JsonView::As() const {
  if constexpr (std::is_same_v<T, std::map<std::string, double>>) {
    T values;
    for (const auto& [key, view] : Members()) values[key] = view.template As<double>();
    return values;
  } else {
    return ReadJson<T>(*json_, [this](std::string_view wanted, const Json& found) {
      Fail("expected {}, found {}", wanted, Show(found));
    });
  }
}

template <class T>
T JsonView::Get(std::string_view key) const {
  return At(key).As<T>();
}

#define DPB_INSTANTIATE_JSON_READS(...)                                       \
  template __VA_ARGS__ ReadJson<__VA_ARGS__>(const Json&, const RefuseJson&); \
  template __VA_ARGS__ JsonView::As<__VA_ARGS__>() const;                     \
  template __VA_ARGS__ JsonView::Get<__VA_ARGS__>(std::string_view) const;

DPB_INSTANTIATE_JSON_READS(bool)
DPB_INSTANTIATE_JSON_READS(int)
DPB_INSTANTIATE_JSON_READS(std::int64_t)
DPB_INSTANTIATE_JSON_READS(std::uint64_t)
DPB_INSTANTIATE_JSON_READS(float)
DPB_INSTANTIATE_JSON_READS(double)
DPB_INSTANTIATE_JSON_READS(std::string)
DPB_INSTANTIATE_JSON_READS(std::vector<std::int64_t>)
DPB_INSTANTIATE_JSON_READS(std::vector<std::uint64_t>)
DPB_INSTANTIATE_JSON_READS(std::vector<double>)
DPB_INSTANTIATE_JSON_READS(std::vector<std::string>)
DPB_INSTANTIATE_JSON_READS(std::vector<std::vector<float>>)

#undef DPB_INSTANTIATE_JSON_READS

template std::map<std::string, double> JsonView::As() const;
template std::map<std::string, double> JsonView::Get(std::string_view) const;

}  // namespace dp_bench::core
