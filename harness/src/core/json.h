// The only reader of dp_bench's own JSON files: manifests, states, logs, baselines. They are
// untrusted. Depth is checked before a value is built, because copying and destroying a value is
// recursive. Every error names the file and the place. Configs, which have comments and origins,
// are read by config/.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::core {

/// Configs have at most 64 levels; files that hold a config have a few more.
inline constexpr int kMaxJsonDepth = 96;

/// Parses `text` as a JSON object. `what` names the file in messages. Throws Error{`code`} with
/// line and column if it is anything else, is nested deeper than kMaxJsonDepth, or repeats a key
/// within an object.
nlohmann::json ParseJson(std::string_view text, std::string_view what,
                         ErrorCode code = ErrorCode::kData);

/// The same for a regular file of at most `max_bytes`. Throws Error{kIo} if it cannot be read.
nlohmann::json ReadJsonFile(const std::filesystem::path& path, std::size_t max_bytes,
                            ErrorCode code = ErrorCode::kData);

/// Parses `text` as a JSON object. Returns null if it is not one: for lines that a crash may have
/// cut off.
nlohmann::json TryParseJson(std::string_view text);

/// The value as JSON, cut to 60 characters, for messages.
std::string ShortDump(const nlohmann::json& value);

/// The value at a JSON pointer such as "/env/plugin"; null if there is none.
nlohmann::json ValueAt(const nlohmann::json& json, const std::string& pointer);

/// The same as a string; `otherwise` if it is none.
std::string TextAt(const nlohmann::json& json, const std::string& pointer,
                   const std::string& otherwise = "");

/// The value; null if there is none.
template <class T>
nlohmann::json OrNull(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

/// Throws: `found` is not what was `wanted`.
using RefuseJson = std::function<void(std::string_view wanted, const nlohmann::json& found)>;

/// A value as a T, as JsonView::As reads it (but no map). Nothing is converted: 1.0 is not an
/// integer, 1 is not a bool, and an integer must fit.
template <class T>
T ReadJson(const nlohmann::json& value, const RefuseJson& refuse);

/// A value within a parsed file, for strict reads: nothing is converted, and an integer must fit
/// its type. Every error names the file, the place, what was expected and what was found. The
/// file's name and the JSON must outlive the view.
class JsonView {
 public:
  JsonView(const nlohmann::json& json, std::string_view what, ErrorCode code = ErrorCode::kData);

  const nlohmann::json& json() const { return *json_; }

  /// Whether the member exists and is not null.
  bool Has(std::string_view key) const;

  /// A member, which must exist. This value must be an object.
  JsonView At(std::string_view key) const;

  /// The elements of the array `key`, which must exist.
  std::vector<JsonView> Elements(std::string_view key) const;

  /// The members of this object by name.
  std::map<std::string, JsonView> Members() const;

  /// The member `key` as a T: bool, int, std::int64_t, std::uint64_t, float, double, std::string, a
  /// vector of one of these or of such a vector, or a map from names to double.
  template <class T>
  T Get(std::string_view key) const;

  /// The same, but nothing if the member is absent or null.
  template <class T>
  std::optional<T> GetOptional(std::string_view key) const {
    return Has(key) ? std::optional<T>(Get<T>(key)) : std::nullopt;
  }

  /// This value as a T.
  template <class T>
  T As() const;

  /// Throws an Error: "<file>: <place>: <fault>".
  [[noreturn]] void Fail(std::string_view fault) const;

  /// The same with a fault that fmt::format makes of its values.
  template <class T, class... More>
  [[noreturn]] void Fail(fmt::format_string<T, More...> fault, T&& value, More&&... more) const {
    Fail(fmt::format(fault, std::forward<T>(value), std::forward<More>(more)...));
  }

 private:
  JsonView(const nlohmann::json& json, const JsonView& parent, std::string place);
  const nlohmann::json& Member(std::string_view key) const;

  const nlohmann::json* json_;
  std::string_view what_;
  ErrorCode code_;
  std::string place_;  // "tasks.0.test"
};

/// The fields of an object, written or read: a function that names the fields of a struct with
/// their members does both. A member is of a type that JsonView::Get reads.
class JsonFields {
 public:
  explicit JsonFields(nlohmann::json* written) : written_(written) {}
  explicit JsonFields(const JsonView& read) : read_(&read) {}

  template <class T>
  void operator()(const char* key, T* member) const {
    if (written_ != nullptr) {
      (*written_)[key] = *member;
    } else {
      *member = read_->Get<T>(key);
    }
  }

  /// None is null, and may be missing.
  template <class T>
  void operator()(const char* key, std::optional<T>* member) const {
    if (written_ != nullptr) {
      (*written_)[key] = OrNull(*member);
    } else {
      *member = read_->GetOptional<T>(key);
    }
  }

  /// One that may be missing or null: the member keeps its value.
  template <class T>
  void Lenient(const char* key, T* member) const {
    if (written_ != nullptr || read_->Has(key)) (*this)(key, member);
  }

  /// The same; a member that is T{} is not written.
  template <class T>
  void IfSet(const char* key, T* member) const {
    if (written_ == nullptr || *member != T{}) Lenient(key, member);
  }

  /// An object with fields of its own, named by `visit(fields)`.
  template <class Visit>
  void Object(const char* key, const Visit& visit) const {
    if (written_ != nullptr) {
      visit(JsonFields(&(*written_)[key]));
    } else {
      const JsonView object = read_->At(key);
      visit(JsonFields(object));
    }
  }

 private:
  nlohmann::json* written_ = nullptr;  // one of both
  const JsonView* read_ = nullptr;
};

/// A struct as an object; `visit(fields, &value)` names its fields.
template <class T, class Visit>
nlohmann::json ToFields(T value, const Visit& visit) {
  nlohmann::json json = nlohmann::json::object();
  visit(JsonFields(&json), &value);
  return json;
}

/// The inverse.
template <class T, class Visit>
T FromFields(const JsonView& json, const Visit& visit) {
  T value;
  visit(JsonFields(json), &value);
  return value;
}

}  // namespace dp_bench::core
