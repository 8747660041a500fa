// The typed reads of dp_bench::Config on top of ConfigDocument.
#include "dp_bench/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "config/document.h"
#include "config/json_source.h"
#include "config/name.h"
#include "core/errors.h"
#include "core/json.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;

template <class T>
struct VectorElement : std::false_type {};
template <class E>
struct VectorElement<std::vector<E>> : std::true_type {
  using Type = E;
};

template <class T>
T Convert(const config::ConfigDocument& document, const std::string& pointer, const Json& value) {
  return core::ReadJson<T>(value, [&](std::string_view wanted, const Json& found) {
    throw ConfigError("{}: expected {}, found {}", document.Where(pointer), wanted,
                      config::Describe(found));
  });
}

template <class T>
std::string TypeName() {
  if constexpr (VectorElement<T>::value) {
    return fmt::format("list of {}s", TypeName<typename VectorElement<T>::Type>());
  } else if constexpr (std::is_same_v<T, bool>) {
    return "boolean";
  } else if constexpr (std::is_same_v<T, double>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "string";
  } else {
    return std::is_unsigned_v<T> ? "integer, at least 0" : "integer";
  }
}

// A bound beyond this one only stops nonsense; the reference leaves it out.
constexpr double kUnbounded = 1e9;

template <class T>
std::string RangeText(T low, T high) {
  return static_cast<double>(high) < kUnbounded ? fmt::format("{} to {}", low, high)
                                                : fmt::format("at least {}", low);
}

template <class T>
std::string DefaultText(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    return fmt::format("{}", value);  // shorter than JSON's text
  } else {
    return Json(value).dump();
  }
}

// Notes a read for the config reference. Second reads, without a meaning, do not name their file.
void Note(config::ConfigDocument* document, config::KeyRead read, const KeyMeaning& meaning) {
  if (!document->is_noting()) return;
  read.meaning = meaning.text;
  if (!read.meaning.empty()) read.reader = meaning.reader;
  document->Note(std::move(read));
}

template <class T>
void NoteRange(config::ConfigDocument* document, const std::string& pointer, T low, T high) {
  Note(document, {.pointer = pointer, .range = RangeText(low, high)}, {});
}

template <class T>
T CheckRange(const Config& config, std::string_view key, T value, T low, T high) {
  if (!(value >= low && value <= high)) {
    throw ConfigError("{}: expected a number from {} to {}, found {}", config.Where(key), low, high,
                      value);
  }
  return value;
}

void ReadValues(const Json& values, const std::string& pointer, config::ConfigDocument* document) {
  for (const auto& item : values.items()) {
    const std::string child = config::ChildPointer(pointer, item.key());
    if (config::HoldsKeys(item.value())) {
      document->OpenObject(child);
      ReadValues(item.value(), child, document);
    } else if (!document->Read(child)) {
      document->RecordDefault(child, item.value());
    }
  }
}

}  // namespace

Config::Config(std::shared_ptr<config::ConfigDocument> document, std::string pointer)
    : document_(std::move(document)), pointer_(std::move(pointer)) {}

Config Config::FromJson(std::string_view text, std::string_view origin) {
  return Config(std::make_shared<config::ConfigDocument>(config::ParseJsonSource(text, origin)));
}

bool Config::Has(std::string_view key) const {
  return document_->Has(config::ChildPointer(pointer_, key));
}

template <class T>
T Config::Require(std::string_view key, const KeyMeaning& meaning) const {
  const std::string pointer = config::ChildPointer(pointer_, key);
  Note(document_.get(), {pointer, TypeName<T>(), "required"}, meaning);
  const std::optional<Json> value = document_->Read(pointer);
  if (value) return Convert<T>(*document_, pointer, *value);
  if (document_->is_noting()) return T{};
  throw ConfigError("{}: this key is missing; give it in a config file or as {}=...",
                    document_->Where(pointer), config::DottedKey(pointer));
}

template <class T>
T Config::Get(std::string_view key, const T& default_value, const KeyMeaning& meaning) const {
  const std::string pointer = config::ChildPointer(pointer_, key);
  Note(document_.get(), {pointer, TypeName<T>(), DefaultText(default_value)}, meaning);
  const std::optional<Json> value = document_->Read(pointer);
  if (value) return Convert<T>(*document_, pointer, *value);
  document_->RecordDefault(pointer, default_value);
  return default_value;
}

template <class T>
std::optional<T> Config::GetOptional(std::string_view key, const KeyMeaning& meaning) const {
  const std::string pointer = config::ChildPointer(pointer_, key);
  Note(document_.get(), {pointer, TypeName<T>(), "none"}, meaning);
  const std::optional<Json> value = document_->Read(pointer);
  if (value && !value->is_null()) return Convert<T>(*document_, pointer, *value);
  if (!value) document_->RecordDefault(pointer, nullptr);
  return std::nullopt;
}

#define DPB_INSTANTIATE_CONFIG_READS(T)                                                         \
  template DPB_API T Config::Require<T>(std::string_view, const KeyMeaning&) const;             \
  template DPB_API T Config::Get<T>(std::string_view, const T&, const KeyMeaning&) const;       \
  template DPB_API std::optional<T> Config::GetOptional<T>(std::string_view, const KeyMeaning&) \
      const;

DPB_INSTANTIATE_CONFIG_READS(bool)
DPB_INSTANTIATE_CONFIG_READS(int)
DPB_INSTANTIATE_CONFIG_READS(std::int64_t)
DPB_INSTANTIATE_CONFIG_READS(std::uint64_t)
DPB_INSTANTIATE_CONFIG_READS(double)
DPB_INSTANTIATE_CONFIG_READS(std::string)
DPB_INSTANTIATE_CONFIG_READS(std::vector<std::int64_t>)
DPB_INSTANTIATE_CONFIG_READS(std::vector<double>)
DPB_INSTANTIATE_CONFIG_READS(std::vector<std::string>)

#undef DPB_INSTANTIATE_CONFIG_READS

double Config::GetInRange(std::string_view key, double default_value, double low, double high,
                          const KeyMeaning& meaning) const {
  NoteRange(document_.get(), config::ChildPointer(pointer_, key), low, high);
  return CheckRange(*this, key, Get(key, default_value, meaning), low, high);
}

std::int64_t Config::GetInRange(std::string_view key, std::int64_t default_value, std::int64_t low,
                                std::int64_t high, const KeyMeaning& meaning) const {
  NoteRange(document_.get(), config::ChildPointer(pointer_, key), low, high);
  return CheckRange(*this, key, Get(key, default_value, meaning), low, high);
}

std::optional<double> Config::GetOptionalInRange(std::string_view key, double low, double high,
                                                 const KeyMeaning& meaning) const {
  NoteRange(document_.get(), config::ChildPointer(pointer_, key), low, high);
  const auto value = GetOptional<double>(key, meaning);
  if (value) CheckRange(*this, key, *value, low, high);
  return value;
}

std::optional<std::int64_t> Config::GetOptionalInRange(std::string_view key, std::int64_t low,
                                                       std::int64_t high,
                                                       const KeyMeaning& meaning) const {
  NoteRange(document_.get(), config::ChildPointer(pointer_, key), low, high);
  const auto value = GetOptional<std::int64_t>(key, meaning);
  if (value) CheckRange(*this, key, *value, low, high);
  return value;
}

std::string Config::GetChoice(std::string_view key, const std::vector<std::string>& choices,
                              const KeyMeaning& meaning) const {
  DPB_ASSERT(!choices.empty());
  Note(document_.get(), {.pointer = config::ChildPointer(pointer_, key), .choices = choices}, {});
  std::string value = Get(key, choices.front(), meaning);
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  throw ConfigError("{}: expected one of {}, found '{}'{}", Where(key), fmt::join(choices, ", "),
                    value, config::DidYouMean(value, choices));
}

Config Config::Sub(std::string_view key, const KeyMeaning& meaning) const {
  std::string pointer = config::ChildPointer(pointer_, key);
  if (*meaning.text != '\0') Note(document_.get(), {pointer, "object", "{}"}, meaning);
  document_->OpenObject(pointer);
  return Config(document_, std::move(pointer));
}

std::vector<Config> Config::List(std::string_view key, const KeyMeaning& meaning) const {
  const std::string pointer = config::ChildPointer(pointer_, key);
  Note(document_.get(), {pointer, "list of objects", "none"}, meaning);
  if (document_->is_noting()) document_->NoteList(pointer);
  const Json list = document_->Copy(pointer);
  if (list.is_object()) {
    throw ConfigError("{}: expected a list of objects, found an object", document_->Where(pointer));
  }
  std::vector<Config> objects;
  const Config parent = Sub(key);
  for (std::size_t i = 0; i < list.size(); ++i) objects.push_back(parent.Sub(std::to_string(i)));
  return objects;
}

std::vector<std::string> Config::Keys() const {
  if (document_->is_noting()) document_->NoteAnyKey(pointer_);
  std::vector<std::string> keys;
  const Json object = document_->Copy(pointer_);
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

std::string Config::ToJson() const {
  const Json object = document_->Copy(pointer_);
  return object.is_null() ? "{}" : object.dump(2);
}

void Config::ReadAll(std::string_view json) const {
  ReadValues(Json::parse(json), pointer_, document_.get());
}

void Config::RejectUnread() const {
  dp_bench::config::RejectUnread(document_->DescribeUnread(pointer_));
}

std::string Config::Where(std::string_view key) const {
  return document_->Where(key.empty() ? pointer_ : config::ChildPointer(pointer_, key));
}

}  // namespace dp_bench
