// The one reader of JSON files of ours: manifests, states, logs, baselines. They are untrusted, so
// depth is bounded before a value is built, whose copies and destruction are recursive, and every
// fault says file and place. Configs, which have comments and origins, are read by config/.
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

/// Configs have at most 64 levels; files that hold one have a few more.
inline constexpr int kMaxJsonDepth = 96;

/// The JSON object that `text` is. `what` names the file in messages. Throws Error{`code`} with
/// line and column when it is something else or nested deeper than kMaxJsonDepth, and when a key
/// occurs twice in an object.
nlohmann::json ParseJson(std::string_view text, std::string_view what,
                         ErrorCode code = ErrorCode::kData);

/// The same for a regular file of at most `max_bytes`; Error{kIo} when it cannot be read.
nlohmann::json ReadJsonFile(const std::filesystem::path& path, std::size_t max_bytes,
                            ErrorCode code = ErrorCode::kData);

/// The JSON object that `text` is; null when it is none, for lines that a crash may have cut off.
nlohmann::json TryParseJson(std::string_view text);

/// A value within a parsed file, for strict reads: nothing is converted, an integer must fit its
/// type. Every fault is an Error that names the file, the place, what was wanted and what was
/// found. The file's name and the JSON must outlive it.
class JsonView {
 public:
  JsonView(const nlohmann::json& json, std::string_view what, ErrorCode code = ErrorCode::kData);

  const nlohmann::json& json() const { return *json_; }

  /// True for a member other than null.
  bool Has(std::string_view key) const;

  /// A member, which must exist. `key` is of an object.
  JsonView At(std::string_view key) const;

  /// The elements of the array `key`, which must exist.
  std::vector<JsonView> Elements(std::string_view key) const;

  /// The members of this object by name.
  std::map<std::string, JsonView> Members() const;

  /// The member `key` as a T: bool, int, std::int64_t, std::uint64_t, float, double, std::string, a
  /// vector of one of these or of such a vector, or a map from names to double.
  template <class T>
  T Get(std::string_view key) const;

  /// The same where absence and null mean that there is none.
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
