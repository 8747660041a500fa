// JSON text with comments, read so that every key remembers its file and line. Places in a document
// are JSON pointers (RFC 6901). Config files are untrusted: size and depth are limited.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::config {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxConfigDepth = 64;
inline constexpr std::size_t kMaxConfigKeys = 100'000;

/// A JSON value, and where each of its keys was written ("configs/task/pusht.json:7").
struct JsonSource {
  nlohmann::json value = nlohmann::json::object();
  std::map<std::string, std::string> origins;          // by JSON pointer; "" is the whole document
  std::map<std::string, std::string> references = {};  // texts that ResolveReferences replaced
  std::vector<std::string> notes = {};                 // for the user
};

/// Pointer of the member `key` of the object at `pointer`.
std::string ChildPointer(const std::string& pointer, std::string_view key);

/// The keys on the path from the root to `pointer`.
std::vector<std::string> PointerKeys(std::string_view pointer);

/// "/training/lr" as "training.lr", for messages.
std::string DottedKey(std::string_view pointer);

/// Where the key at `pointer` was written. A key that is in no file has the place of the nearest
/// object around it.
std::string OriginOf(const JsonSource& source, std::string pointer);

/// The array element that `key` numbers; none if the array has no such element.
std::optional<std::size_t> IndexIn(const nlohmann::json& array, const std::string& key);

/// The member of an object, or the element of an array, that `key` names; null if there is none.
/// `J`: nlohmann::json, or the same as const.
template <class J>
J* ChildOf(const std::string& key, J* value) {
  if (value->is_array()) {
    const auto index = IndexIn(*value, key);
    return index ? &(*value)[*index] : nullptr;
  }
  const auto member = value->is_object() ? value->find(key) : value->end();
  return member == value->end() ? nullptr : &*member;
}

/// Parses one JSON object; `origin` names the file in messages. Throws Error{kConfig} with file and
/// line if it is not an object, on a syntax error or a duplicate key, and if it is too deep, too
/// large or has too many keys.
JsonSource ParseJsonSource(std::string_view text, std::string_view origin);

/// The same for a file. Throws Error{kConfig} when it cannot be read.
JsonSource ReadJsonSource(const std::filesystem::path& file);

/// Merges `over` into `base`: objects merge key by key, everything else is replaced.
void MergeJsonSource(JsonSource over, JsonSource* base);

/// Removes and returns one member of the top-level object; null if there is none.
nlohmann::json TakeMember(const std::string& key, JsonSource* source);

/// Describes a value for messages: "the number 0.5", "the string \"cpu\"", "an array".
std::string Describe(const nlohmann::json& value);

}  // namespace dp_bench::config
