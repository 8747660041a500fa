// The only reader of dp_bench's own JSON files: manifests, states, logs, baselines. They are
// untrusted. Depth is checked before a value is built, because copying and destroying a value is
// recursive. Every error names the file and the place. Configs, which have comments and origins,
// are read by config/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
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

 private:
  JsonView(const nlohmann::json& json, const JsonView& parent, std::string place);
  const nlohmann::json& Member(std::string_view key) const;

  const nlohmann::json* json_;
  std::string_view what_;
  ErrorCode code_;
  std::string place_;  // "tasks.0.test"
};

}  // namespace dp_bench::core
