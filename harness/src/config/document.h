// The state behind all Config views of one run: values, origins, and which keys were read.
#pragma once

#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/json_source.h"

namespace dp_bench::config {

/// A config document. Every method may be called from several threads at once. Places are JSON
/// pointers. A null value counts as absent wherever absence is allowed.
class ConfigDocument {
 public:
  explicit ConfigDocument(JsonSource source);

  /// The value at `pointer`, nothing when absent; the key counts as read from now on.
  std::optional<nlohmann::json> Read(const std::string& pointer);

  /// Enters a default, so that the resolved config shows it.
  void RecordDefault(const std::string& pointer, nlohmann::json value);

  /// Marks the object at `pointer` as read; its members are accounted for one by one. A list of
  /// objects passes for an object with the keys 0, 1, ... Throws Error{kConfig} when there is
  /// something else.
  void OpenObject(const std::string& pointer);

  /// True for a value other than null. The key becomes known, not read.
  bool Has(const std::string& pointer);

  /// A copy of the value, which does not count as reading it; null when absent.
  nlohmann::json Copy(const std::string& pointer) const;

  /// "file:line: dotted.key".
  std::string Where(const std::string& pointer) const;

  /// Whether an override of the command line set a key at or below `pointer`.
  bool HasOverride(const std::string& pointer) const;

  /// Whether an unread key counts; `is_override`: it was set by "key=value" on the command line.
  using KeyFilter = std::function<bool(const std::string& pointer, bool is_override)>;

  /// One line per key below `pointer` that nothing read, with its place and a suggestion. Of an
  /// unread object that the filter lets pass, its members are asked about. Of many, the first ones
  /// and how many more there are.
  std::vector<std::string> DescribeUnread(const std::string& pointer,
                                          const KeyFilter& counts = {}) const;

 private:
  const nlohmann::json* Find(std::string_view pointer) const;
  std::string WhereLocked(const std::string& pointer) const;
  std::string OriginLocked(std::string pointer) const;
  void AppendUnread(const std::string& pointer, const nlohmann::json& object,
                    const KeyFilter& counts, std::vector<std::string>* lines,
                    std::size_t* n_more) const;
  std::string Suggestion(const std::string& parent, const std::string& key) const;

  mutable std::mutex mutex_;
  JsonSource source_;
  std::set<std::string> read_;
  std::set<std::string> known_;  // read, or asked for with Has
};

/// Throws Error{kConfig} with these lines, unless there are none.
void RejectUnread(const std::vector<std::string>& unread);

}  // namespace dp_bench::config
