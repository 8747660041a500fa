// Strict reads from a JSON config. Every read checks the type, fills in the default and marks the
// key as read. A key that was never read is reported as a typo, and the resolved config can be
// saved. The meaning of a key is written where the key is read; `dp_bench keys` prints all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/export.h"

namespace dp_bench {

namespace config {
class ConfigDocument;
}

/// What a key means, for users who write configs: units, and the meaning of 0 or null. It also
/// holds the source file in which it was written. A function that reads keys for its callers takes
/// a KeyMeaning and passes it on.
struct KeyMeaning {
  // the builtin, because clang 14 has no std::source_location
  constexpr KeyMeaning(const char* meaning = "", const char* file = __builtin_FILE())
      : text(meaning), reader(file) {}

  const char* text;
  const char* reader;
};

/// A view of one JSON object of a config document. Copies are cheap and share the document. Every
/// error is an Error{kConfig} that names file, line, dotted key, the expected value and the value
/// found.
class DPB_API Config {
 public:
  explicit Config(std::shared_ptr<config::ConfigDocument> document, std::string pointer = "");

  /// A config from JSON text, for tests and defaults. Messages show `origin` as the file name.
  static Config FromJson(std::string_view text, std::string_view origin = "<text>");

  bool Has(std::string_view key) const;

  /// The value of a key that must exist. T: bool, int, std::int64_t, std::uint64_t, double,
  /// std::string, or a std::vector of int64_t, double or std::string.
  template <class T>
  T Require(std::string_view key, const KeyMeaning& meaning = {}) const;

  /// The same, for a key whose meaning is given at another read.
  template <class T>
  T Get(std::string_view key) const {
    return Require<T>(key);
  }

  /// If the key is absent, the default is recorded in the resolved config.
  template <class T>
  T Get(std::string_view key, const T& default_value, const KeyMeaning& meaning = {}) const;

  /// Like Get; null or an absent key gives std::nullopt.
  template <class T>
  std::optional<T> GetOptional(std::string_view key, const KeyMeaning& meaning = {}) const;

  /// A number within [low, high].
  double GetInRange(std::string_view key, double default_value, double low, double high,
                    const KeyMeaning& meaning = {}) const;
  std::int64_t GetInRange(std::string_view key, std::int64_t default_value, std::int64_t low,
                          std::int64_t high, const KeyMeaning& meaning = {}) const;

  /// Like GetInRange; null or an absent key gives std::nullopt.
  std::optional<double> GetOptionalInRange(std::string_view key, double low, double high,
                                           const KeyMeaning& meaning = {}) const;
  std::optional<std::int64_t> GetOptionalInRange(std::string_view key, std::int64_t low,
                                                 std::int64_t high,
                                                 const KeyMeaning& meaning = {}) const;

  /// One of `choices`; the first is the default.
  std::string GetChoice(std::string_view key, const std::vector<std::string>& choices,
                        const KeyMeaning& meaning = {}) const;

  /// The object under `key`, or an empty one if the key is absent.
  Config Sub(std::string_view key, const KeyMeaning& meaning = {}) const;

  /// The objects of the list under `key`; none if the key is absent.
  std::vector<Config> List(std::string_view key, const KeyMeaning& meaning = {}) const;

  /// Keys of this object in alphabetical order.
  std::vector<std::string> Keys() const;

  /// This object as JSON text, with the defaults read so far.
  std::string ToJson() const;

  /// Counts every key of this JSON object as read, and takes its values as defaults of keys that
  /// are absent. With `ToJson()` it reads an object whose keys the config chooses.
  void ReadAll(std::string_view json) const;

  /// Throws if keys below this object were never read, naming the line and the nearest known key of
  /// each.
  void RejectUnread() const;

  /// "configs/task/pusht.json:7: dotted.key", for the caller's own messages about a value.
  std::string Where(std::string_view key = "") const;

 private:
  std::shared_ptr<config::ConfigDocument> document_;
  std::string pointer_;
};

}  // namespace dp_bench
