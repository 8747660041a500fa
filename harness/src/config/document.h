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

/// How the code reads a key, for the config reference.
struct KeyRead {
  std::string pointer;
  std::string type{};           // "integer"
  std::string default_value{};  // as JSON, or "required", or "none"
  std::string range{};          // "0 to 1"
  std::vector<std::string> choices{};
  std::string meaning{};
  std::string reader{};  // source file in which the meaning is written
};

/// Takes from a later read of the same key what `read` does not say.
void FillIn(const KeyRead& later, KeyRead* read);

/// What the code asked of a config.
struct KeyReads {
  std::vector<KeyRead> keys;           // each once, in the order of their first reads
  std::set<std::string> asked;         // places where Has was called
  std::set<std::string> lists;         // places read as a list of objects
  std::set<std::string> with_any_key;  // objects whose keys the config chooses
};

/// A config document. Every method may be called from several threads at once. Places are JSON
/// pointers. A null value counts as absent wherever a value may be absent.
class ConfigDocument {
 public:
  explicit ConfigDocument(JsonSource source);

  /// The value at `pointer`, or nothing if absent. Marks the key as read.
  std::optional<nlohmann::json> Read(const std::string& pointer);

  /// Adds a default, so that the resolved config shows it.
  void RecordDefault(const std::string& pointer, nlohmann::json value);

  /// Marks the object at `pointer` as read, but not its members. A list of objects counts as an
  /// object with the keys 0, 1, ... Throws Error{kConfig} for any other value.
  void OpenObject(const std::string& pointer);

  /// Whether the value exists and is not null. Marks the key as known, not as read.
  bool Has(const std::string& pointer);

  /// A copy of the value, or null if absent. Does not mark it as read.
  nlohmann::json Copy(const std::string& pointer) const;

  /// From now on reads are noted, and a required key that is missing reads as an empty value.
  void StartNotes();
  bool is_noting() const { return reads_.has_value(); }
  const KeyReads& reads() const { return *reads_; }

  /// Notes a read; what an earlier read of the key did not say is added to it.
  void Note(KeyRead read);
  void NoteList(const std::string& pointer);
  void NoteAnyKey(const std::string& pointer);

  /// "file:line: dotted.key".
  std::string Where(const std::string& pointer) const;

  /// One line per reference that was resolved: "n_action_steps = 8, from ${eval: ${horizon} / 2}
  /// (configs/a.json:3)".
  std::vector<std::string> DescribeReferences() const;

  /// What the user should know of how the config came about.
  const std::vector<std::string>& notes() const { return source_.notes; }

  /// Removes a top-level key.
  void Remove(const std::string& key);

  /// Whether a file or the command line gives the value, also as null: it is no default.
  bool IsGiven(const std::string& pointer) const;

  /// Whether a command line override set a key at or below `pointer`.
  bool HasOverride(const std::string& pointer) const;

  /// Whether an unread key counts. `is_override`: it was set by "key=value" on the command line.
  using KeyFilter = std::function<bool(const std::string& pointer, bool is_override)>;

  /// One line per unread key below `pointer`, with its place and a suggestion. If the filter
  /// accepts an unread object, the filter is asked about its members. A long list is cut, with the
  /// number of further keys.
  std::vector<std::string> DescribeUnread(const std::string& pointer,
                                          const KeyFilter& counts = {}) const;

 private:
  const nlohmann::json* Find(std::string_view pointer) const;
  std::string WhereLocked(const std::string& pointer) const;
  void AppendUnread(const std::string& pointer, const nlohmann::json& object,
                    const KeyFilter& counts, std::vector<std::string>* lines,
                    std::size_t* n_more) const;
  std::string Suggestion(const std::string& parent, const std::string& key) const;

  mutable std::mutex mutex_;
  JsonSource source_;
  std::set<std::string> read_;
  std::set<std::string> known_;    // read, or asked for with Has
  std::optional<KeyReads> reads_;  // noted only for the config reference
};

/// Whether a value is an object, or a list of objects.
bool HoldsKeys(const nlohmann::json& value);

/// Throws Error{kConfig} with these lines if there are any.
void RejectUnread(const std::vector<std::string>& unread);

}  // namespace dp_bench::config
