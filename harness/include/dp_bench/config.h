// Strict reads from a JSON config: every read checks the type, fills in the default and marks the
// key, so that a key nobody read is reported as a typo, and the resolved config can be written
// down. The meaning of a key is written where the key is read; `dp_bench keys` prints all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/export.h"

namespace dp_bench {

namespace config {
class ConfigDocument;
}

/// What a key means, for the reader of a config: units, and what 0 or null mean. It remembers the
/// source file in which it was written. A function that reads a key for others takes one and passes
/// it on.
struct KeyMeaning {
  constexpr KeyMeaning(const char* meaning = "",
                       std::source_location where = std::source_location::current())
      : text(meaning), reader(where) {}

  const char* text;
  std::source_location reader;
};

/// A view of one JSON object of a config document. Copies are cheap and share the document. Every
/// error is an Error{kConfig} that names file, line, dotted key, what was wanted and what was
/// found.
class DPB_API Config {
 public:
  explicit Config(std::shared_ptr<config::ConfigDocument> document, std::string pointer = "");

  /// A config from JSON text, for tests and defaults. `origin` stands in for the file name.
  static Config FromJson(std::string_view text, std::string_view origin = "<text>");

  bool Has(std::string_view key) const;

  /// The value of a key that must exist. T: bool, int, std::int64_t, std::uint64_t, double,
  /// std::string, or a std::vector of int64_t, double or std::string.
  template <class T>
  T Require(std::string_view key, const KeyMeaning& meaning = {}) const;

  /// The same, for a key whose meaning another read gives.
  template <class T>
  T Get(std::string_view key) const {
    return Require<T>(key);
  }

  /// The default is recorded in the resolved config when the key is absent.
  template <class T>
  T Get(std::string_view key, const T& default_value, const KeyMeaning& meaning = {}) const;

  /// Like Get, and null (or absent) gives std::nullopt.
  template <class T>
  std::optional<T> GetOptional(std::string_view key, const KeyMeaning& meaning = {}) const;

  /// A number within [low, high].
  double GetInRange(std::string_view key, double default_value, double low, double high,
                    const KeyMeaning& meaning = {}) const;
  std::int64_t GetInRange(std::string_view key, std::int64_t default_value, std::int64_t low,
                          std::int64_t high, const KeyMeaning& meaning = {}) const;

  /// Like GetInRange, and null (or absent) gives std::nullopt.
  std::optional<double> GetOptionalInRange(std::string_view key, double low, double high,
                                           const KeyMeaning& meaning = {}) const;
  std::optional<std::int64_t> GetOptionalInRange(std::string_view key, std::int64_t low,
                                                 std::int64_t high,
                                                 const KeyMeaning& meaning = {}) const;

  /// One of `choices`; the first is the default.
  std::string GetChoice(std::string_view key, const std::vector<std::string>& choices,
                        const KeyMeaning& meaning = {}) const;

  /// The object under `key`; an empty one when absent.
  Config Sub(std::string_view key, const KeyMeaning& meaning = {}) const;

  /// The objects of the list under `key`; none when absent.
  std::vector<Config> List(std::string_view key, const KeyMeaning& meaning = {}) const;

  /// Keys of this object in alphabetical order.
  std::vector<std::string> Keys() const;

  /// This object as JSON text, with the defaults read so far.
  std::string ToJson() const;

  /// Throws for keys below this object that nobody read, each with its line and the nearest known
  /// key.
  void RejectUnread() const;

  /// "configs/task/pusht.json:7: dotted.key", for messages of the caller about a value of its own.
  std::string Where(std::string_view key = "") const;

 private:
  std::shared_ptr<config::ConfigDocument> document_;
  std::string pointer_;
};

}  // namespace dp_bench
