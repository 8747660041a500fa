#include "wire/message.h"

#include <algorithm>
#include <msgpack.hpp>
#include <span>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/utf8.h"
#include "wire/marked_map.h"
#include "wire/shown.h"

namespace dp_bench::wire {
namespace {

// Builds the value while msgpack-cxx walks through the message and calls these functions. Bytes in
// maps stay views until the map ends, because they may be the data of an array.
class ValueBuilder : public msgpack::null_visitor {
 public:
  ValueBuilder(std::shared_ptr<const std::string> message, std::int64_t max_decoded_pixels)
      : size_(message->size()), marked_(std::move(message), max_decoded_pixels) {}

  // NOLINTBEGIN(readability-identifier-naming): the names that msgpack-cxx calls
  bool visit_nil() { return Put({}); }
  bool visit_boolean(bool is_true) { return Put(is_true); }
  bool visit_positive_integer(std::uint64_t number) {
    if (number > std::uint64_t{INT64_MAX}) return Put(number);
    return Put(static_cast<std::int64_t>(number));
  }
  bool visit_negative_integer(std::int64_t number) { return Put(number); }
  bool visit_float32(float number) { return Put(double{number}); }
  bool visit_float64(double number) { return Put(number); }
  bool visit_str(const char* text, std::uint32_t size) {
    const std::string_view found(text, size);
    RequireText(found);
    if (is_key_) return PutKey(found, true);
    return Put(std::string(found));
  }
  bool visit_bin(const char* bytes, std::uint32_t size) {
    const std::string_view found(bytes, size);
    if (is_key_) {
      RequireText(found);
      return PutKey(found, false);
    }
    if (levels_.empty() || !levels_.back().is_map) return Put(Copy(found));
    levels_.back().members.back().bytes = found;
    return true;
  }
  bool visit_ext(const char* /*bytes*/, std::uint32_t /*size*/) {
    Fail("expected a value without extension types, found one");
  }
  bool start_array(std::uint32_t count) {
    Enter(false, count);
    return true;
  }
  bool end_array() {
    Value list = std::move(levels_.back().list);
    levels_.pop_back();
    return Put(std::move(list));
  }
  bool start_map(std::uint32_t count) {
    Enter(true, count);
    return true;
  }
  bool start_map_key() { return is_key_ = true; }
  bool end_map();
  void parse_error(std::size_t /*parsed*/, std::size_t at) {
    Fail("expected a MessagePack value, found something else after byte {}", at);
  }
  void insufficient_bytes(std::size_t /*parsed*/, std::size_t /*at*/) { CutOff(); }
  // NOLINTEND(readability-identifier-naming)

  Message Take() { return {std::move(root_), marked_.form()}; }

 private:
  // A list or map that is not complete yet.
  struct Level {
    bool is_map;
    List list;
    std::vector<Member> members;
  };

  // "observation.images.cam: ", for messages.
  std::string Place() const {
    std::string place;
    for (const Level& level : levels_) {
      if (is_key_ && &level == &levels_.back()) break;
      if (!place.empty()) place += '.';
      place += level.is_map ? Shown(level.members.back().key) : std::to_string(level.list.size());
    }
    return place.empty() ? "" : place + ": ";
  }

  template <class... T>
  [[noreturn]] void Fail(fmt::format_string<T...> fault, T&&... values) const {
    throw DataError("{}{}", Place(), fmt::format(fault, std::forward<T>(values)...));
  }

  [[noreturn]] void CutOff() const { Fail("the message is cut off after {} bytes", size_); }

  static Bytes Copy(std::string_view bytes) {
    const std::span<const std::byte> found = std::as_bytes(std::span(bytes));
    return {found.begin(), found.end()};
  }

  void RequireText(std::string_view text) const {
    if (!core::IsUtf8(text)) Fail("expected text in UTF-8, found other bytes");
  }

  void RequireNoKey() const {
    if (is_key_) Fail("expected a key of text or bytes");
  }

  bool Put(Value value) {
    RequireNoKey();
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (levels_.back().is_map) {
      levels_.back().members.back().value = std::move(value);
    } else {
      levels_.back().list.push_back(std::move(value));
    }
    return true;
  }

  bool PutKey(std::string_view key, bool is_text) {
    levels_.back().members.push_back({.key = std::string(key), .is_text_key = is_text});
    is_key_ = false;
    return true;
  }

  void Enter(bool is_map, std::uint32_t count) {
    RequireNoKey();
    if (levels_.size() >= std::size_t{kMaxDepth}) Fail("nested deeper than {} levels", kMaxDepth);
    // each of them is at least one byte
    n_values_ += is_map ? std::size_t{2} * count : count;
    if (n_values_ > size_) CutOff();
    if (n_values_ > kMaxValues) Fail("expected at most {} values in a message", kMaxValues);
    Level& level = levels_.emplace_back(Level{.is_map = is_map});
    if (is_map) {
      level.members.reserve(count);
    } else {
      level.list.reserve(count);
    }
  }

  std::size_t size_;          // of the message
  std::size_t n_values_ = 0;  // that the lists and maps so far announced
  bool is_key_ = false;       // whether the next value is a key
  std::vector<Level> levels_;
  Value root_;
  MarkedMapReader marked_;
};

void RequireDistinctKeys(std::span<const Member> members) {
  std::vector<std::string_view> keys;
  keys.reserve(members.size());
  for (const Member& member : members) keys.push_back(member.key);
  std::ranges::sort(keys);
  const auto repeated = std::ranges::adjacent_find(keys);
  if (repeated != keys.end()) throw DataError("the key '{}' occurs twice", Shown(*repeated));
}

bool ValueBuilder::end_map() {
  Level level = std::move(levels_.back());
  levels_.pop_back();
  std::optional<Value> marked;
  try {
    RequireDistinctKeys(level.members);
    marked = marked_.Read(level.members);
  } catch (const Error& error) {
    Fail("{}", error.what());
  }
  if (marked) {
    // or else the array could not be written in another form, with its shape as a list
    if (marked->If<NdArray>() != nullptr && levels_.size() + 2 > std::size_t{kMaxDepth}) {
      Fail("nested deeper than {} levels", kMaxDepth);
    }
    return Put(*std::move(marked));
  }
  std::vector<Map::Entry> entries;
  entries.reserve(level.members.size());
  for (Member& member : level.members) {
    if (member.bytes) member.value = Copy(*member.bytes);
    entries.emplace_back(std::move(member.key), std::move(member.value));
  }
  return Put(Map::OfDistinct(std::move(entries)));
}

}  // namespace

Message Read(std::shared_ptr<const std::string> bytes, std::int64_t max_decoded_pixels) {
  const std::string_view message = *bytes;
  if (message.empty()) throw DataError("expected a message, found no bytes");
  ValueBuilder builder(std::move(bytes), max_decoded_pixels);
  std::size_t n_read = 0;
  msgpack::parse(message.data(), message.size(), n_read, builder);
  if (n_read < message.size()) {
    throw DataError("expected one value, found {} bytes after it, from byte {} on",
                    message.size() - n_read, n_read);
  }
  return builder.Take();
}

}  // namespace dp_bench::wire
