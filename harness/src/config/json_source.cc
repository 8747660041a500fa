// nlohmann/json's SAX parser does not report positions, so it reads through an iterator that counts
// lines: when the parser reports a key, the iterator is right behind the key's closing quote.
#include "config/json_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/parse_number.h"

namespace dp_bench::config {
namespace {

using Json = nlohmann::json;

// As far as the parser needs an iterator.
class LineCountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCountingIterator(const char* position, int* line) : position_(position), line_(line) {}

  reference operator*() const { return *position_; }
  LineCountingIterator& operator++() {
    *line_ += *position_ == '\n' ? 1 : 0;
    ++position_;
    return *this;
  }
  bool operator==(const LineCountingIterator&) const = default;

 private:
  const char* position_;
  int* line_;
};

// Builds the value and the origins; refuses duplicate keys and excessive depth. nlohmann/json
// requires these method names of a SAX handler.
class SourceBuilder {
 public:
  SourceBuilder(std::string_view origin, const int* line, JsonSource* source)
      : origin_(origin), line_(line), source_(source) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(Json::number_integer_t value) { return Add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Add(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return Add(value); }
  bool string(std::string& value) { return Add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON text has none
  bool start_object(std::size_t) { return Open(Json::object()); }
  bool start_array(std::size_t) { return Open(Json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(std::string& key) {
    Frame& frame = stack_.back();
    frame.key = std::move(key);
    const std::string pointer = ChildPointer(frame.pointer, frame.key);
    if (source_->origins.size() > kMaxConfigKeys) {
      throw ConfigError("{}: a config has at most {} keys", Here(), kMaxConfigKeys);
    }
    const auto [origin, is_new] = source_->origins.emplace(pointer, Here());
    if (!is_new) {
      throw ConfigError(
          "{}: the key '{}' is given a second time; it was first given at {}. Remove one of them.",
          Here(), DottedKey(pointer), origin->second);
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) {
    // "[json.exception...] parse error at line 3, column 7: syntax error ...", or a text without a
    // position for numbers out of range
    const std::string_view text = fault.what();
    int line = *line_;
    int column = 0;
    int consumed = 0;
    std::string_view reason = text.substr(text.find("] ") + 2);
    if (std::sscanf(reason.data(), "parse error at line %d, column %d: %n", &line, &column,
                    &consumed) == 2) {
      reason.remove_prefix(static_cast<std::size_t>(consumed));
    }
    constexpr std::size_t kMaxReason = 300;  // the text quotes the token, which may be huge
    throw ConfigError("{}:{}: this is not JSON (comments are allowed): {}", origin_, line,
                      reason.substr(0, kMaxReason));
  }

 private:
  struct Frame {
    Json* container;
    std::string pointer;
    std::string key;  // of the member being read; unused in arrays
  };

  std::string Here() const { return fmt::format("{}:{}", origin_, *line_); }

  // Inserts a value and returns a reference to it.
  Json* Place(Json value) {
    if (stack_.empty()) {
      source_->value = std::move(value);
      return &source_->value;
    }
    const Frame& frame = stack_.back();
    if (frame.container->is_array()) {
      frame.container->push_back(std::move(value));
      return &frame.container->back();
    }
    return &((*frame.container)[frame.key] = std::move(value));
  }

  bool Add(Json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(Json empty) {
    if (stack_.size() >= kMaxConfigDepth) {
      throw ConfigError("{}: nested deeper than {} levels", Here(), kMaxConfigDepth);
    }
    std::string pointer;
    if (!stack_.empty()) {
      const Frame& parent = stack_.back();
      pointer = ChildPointer(parent.pointer, parent.container->is_array()
                                                 ? std::to_string(parent.container->size())
                                                 : parent.key);
    }
    Json* const place = Place(std::move(empty));
    stack_.push_back({place, std::move(pointer), ""});
    return true;
  }

  bool Close() {
    stack_.pop_back();
    return true;
  }

  std::string origin_;
  const int* line_;
  JsonSource* source_;
  std::vector<Frame> stack_;
};

using Origins = std::map<std::string, std::string>;

// The origins below `pointer`, which are adjacent. Searching all of them for each key would take
// minutes for a config with many keys.
std::pair<Origins::iterator, Origins::iterator> OriginsBelow(const std::string& pointer,
                                                             Origins* origins) {
  constexpr char kBehindSlash = '/' + 1;
  return {origins->lower_bound(pointer + "/"), origins->lower_bound(pointer + kBehindSlash)};
}

void EraseOrigins(const std::string& pointer, Origins* origins) {
  origins->erase(pointer);
  const auto [begin, end] = OriginsBelow(pointer, origins);
  origins->erase(begin, end);
}

// Replaces the origins at and below `pointer` in `base` with those of `over`.
void ReplaceOrigins(const std::string& pointer, JsonSource* over, JsonSource* base) {
  EraseOrigins(pointer, &base->origins);
  if (const auto own = over->origins.find(pointer); own != over->origins.end()) {
    base->origins[pointer] = std::move(own->second);
  }
  const auto [begin, end] = OriginsBelow(pointer, &over->origins);
  for (auto origin = begin; origin != end; ++origin) {
    base->origins[origin->first] = std::move(origin->second);
  }
}

void MergeAt(const std::string& pointer, Json* over, Json* base, JsonSource* over_source,
             JsonSource* base_source) {
  for (auto& [key, value] : over->items()) {
    const std::string place = ChildPointer(pointer, key);
    const auto existing = base->find(key);
    if (existing != base->end() && existing->is_object() && value.is_object()) {
      MergeAt(place, &value, &*existing, over_source, base_source);
    } else {
      (*base)[key] = std::move(value);
      ReplaceOrigins(place, over_source, base_source);
    }
  }
}

}  // namespace

std::string ChildPointer(const std::string& pointer, std::string_view key) {
  return pointer + (Json::json_pointer() / std::string(key)).to_string();
}

std::vector<std::string> PointerKeys(std::string_view pointer) {
  std::vector<std::string> keys;
  for (Json::json_pointer place{std::string(pointer)}; !place.empty(); place.pop_back()) {
    keys.push_back(place.back());
  }
  std::ranges::reverse(keys);
  return keys;
}

std::string DottedKey(std::string_view pointer) {
  return fmt::format("{}", fmt::join(PointerKeys(pointer), "."));
}

std::string OriginOf(const JsonSource& source, std::string pointer) {
  auto origin = source.origins.find(pointer);
  while (origin == source.origins.end() && !pointer.empty()) {
    pointer.resize(pointer.rfind('/'));
    origin = source.origins.find(pointer);
  }
  return origin == source.origins.end() ? "<config>" : origin->second;
}

std::optional<std::size_t> IndexIn(const nlohmann::json& array, const std::string& key) {
  const auto index = core::ParseNumber<std::size_t>(key);
  return index && *index < array.size() ? index : std::nullopt;
}

JsonSource ParseJsonSource(std::string_view text, std::string_view origin) {
  if (text.size() > kMaxConfigBytes) {
    throw ConfigError("{}: {} bytes; a config has at most {}", origin, text.size(),
                      kMaxConfigBytes);
  }
  JsonSource source;
  source.origins[""] = std::string(origin);
  int line = 1;
  SourceBuilder builder(origin, &line, &source);
  Json::sax_parse(LineCountingIterator(text.data(), &line),
                  LineCountingIterator(text.data() + text.size(), &line), &builder,
                  Json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
  if (!source.value.is_object()) {
    throw ConfigError("{}: a config is a JSON object, this is {}", origin, Describe(source.value));
  }
  return source;
}

JsonSource ReadJsonSource(const std::filesystem::path& file) {
  std::string text;
  try {
    text = core::ReadTextFile(file, kMaxConfigBytes);
  } catch (const Error& fault) {
    throw ConfigError("the config file cannot be read: {}", fault.what());
  }
  return ParseJsonSource(text, file.string());
}

void MergeJsonSource(JsonSource over, JsonSource* base) {
  MergeAt("", &over.value, &base->value, &over, base);
}

nlohmann::json TakeMember(const std::string& key, JsonSource* source) {
  const auto member = source->value.find(key);
  if (member == source->value.end()) return nullptr;
  Json value = std::move(*member);
  source->value.erase(member);
  EraseOrigins(ChildPointer("", key), &source->origins);
  return value;
}

std::string Describe(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  const std::string text = core::ShortDump(value);
  if (value.is_null() || value.is_boolean()) return text;
  return (value.is_string()  ? "the string "
          : value.is_array() ? "the array "
                             : "the number ") +
         text;
}

}  // namespace dp_bench::config
