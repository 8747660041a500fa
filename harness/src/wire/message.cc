#include "wire/message.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <msgpack.hpp>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/half.h"
#include "core/utf8.h"
#include "media/decoded_image.h"
#include "wire/array_data.h"
#include "wire/npy.h"
#include "wire/shown.h"

namespace dp_bench::wire {
namespace {

// A key of a map with its value.
struct Member {
  std::string key;
  bool is_text_key = true;
  Value value;
  std::optional<std::string_view> bytes;  // within the message; `value` is empty then
};

using namespace std::string_view_literals;

// What numbers of numpy consist of is copied below as it is sent.
static_assert(std::endian::native == std::endian::little);

// A map with a mark, for reads that say what is wrong with it.
class MarkedMap {
 public:
  MarkedMap(std::string_view mark, std::span<const Member> members)
      : mark_(mark), members_(members) {}

  // Throws if the map has other keys than these and the mark.
  void RequireKeys(std::initializer_list<std::string_view> needed,
                   std::initializer_list<std::string_view> allowed = {}) const {
    const auto has = [](std::initializer_list<std::string_view> keys, std::string_view key) {
      return std::ranges::find(keys, key) != keys.end();
    };
    const bool knows_all = std::ranges::all_of(members_, [&](const Member& member) {
      return member.key == mark_ || has(needed, member.key) || has(allowed, member.key);
    });
    if (knows_all && std::ranges::all_of(needed, [&](auto key) { return Find(key) != nullptr; })) {
      return;
    }
    std::vector<std::string> found;
    for (const Member& member : members_.first(std::min<std::size_t>(members_.size(), 8))) {
      found.push_back(Shown(member.key));
    }
    throw DataError("a map with the key {} needs the keys {}; it has {}", mark_,
                    fmt::join(needed, ", "), fmt::join(found, ", "));
  }

  const Member& At(std::string_view key) const { return *Find(key); }

  std::string_view BytesAt(std::string_view key) const {
    const Member& member = At(key);
    if (!member.bytes) Refuse(key, "bytes");
    return *member.bytes;
  }

  const std::string& TextAt(std::string_view key) const {
    const auto* text = At(key).value.If<std::string>();
    if (text == nullptr) Refuse(key, "text");
    return *text;
  }

  NumpyType TypeAt(std::string_view key) const { return ParseNumpyType(TextAt(key)); }

  Shape ShapeAt(std::string_view key) const {
    const auto* list = At(key).value.If<List>();
    if (list == nullptr) Refuse(key, "a list of integers");
    if (list->size() > kMaxDimensions) {
      throw DataError("expected at most {} dimensions, found {}", kMaxDimensions, list->size());
    }
    Shape shape;
    for (const Value& size : *list) {
      const auto* integer = size.If<std::int64_t>();
      if (integer == nullptr) {
        throw DataError("'{}': expected integers, found {}", key, Describe(size));
      }
      shape.push_back(*integer);
    }
    return shape;
  }

  [[noreturn]] void Refuse(std::string_view key, std::string_view wanted) const {
    const Member& member = At(key);
    throw DataError(
        "'{}': expected {}, found {}", key, wanted,
        member.bytes ? fmt::format("{} bytes", member.bytes->size()) : Describe(member.value));
  }

 private:
  const Member* Find(std::string_view key) const {
    const auto found = std::ranges::find(members_, key, &Member::key);
    return found == members_.end() ? nullptr : &*found;
  }

  std::string_view mark_;
  std::span<const Member> members_;
};

template <class T>
T NumberIn(std::string_view bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof(T));
  return number;
}

// A number of numpy as the bytes that it has in memory.
Value ScalarIn(std::string_view bytes, const NumpyType& type) {
  switch (type.kind) {
    case 'b':
      return bytes[0] != 0;
    case 'u': {
      std::uint64_t number = 0;
      std::memcpy(&number, bytes.data(), type.size);
      return IntegerOf(number);
    }
    case 'i': {
      std::uint64_t number = 0;
      std::memcpy(&number, bytes.data(), type.size);
      const std::size_t n_unused = 64 - 8 * type.size;
      return static_cast<std::int64_t>(number << n_unused) >> n_unused;
    }
    default:
      if (type.size == 2) return double{core::FromFloat16(NumberIn<std::uint16_t>(bytes))};
      if (type.size == 4) return double{NumberIn<float>(bytes)};
      return NumberIn<double>(bytes);
  }
}

// openpi writes the number itself.
Value PlainScalar(const MarkedMap& map) {
  map.RequireKeys({"data", "dtype"});
  const NumpyType type = map.TypeAt("dtype");
  const Value& data = map.At("data").value;
  const bool is_integer = data.If<std::int64_t>() != nullptr || data.If<std::uint64_t>() != nullptr;
  if (type.kind == 'b') {
    if (data.If<bool>() == nullptr) map.Refuse("data", "true or false");
  } else if (type.kind == 'f') {
    if (const auto* number = data.If<std::int64_t>()) return static_cast<double>(*number);
    if (const auto* number = data.If<std::uint64_t>()) return static_cast<double>(*number);
    if (data.If<double>() == nullptr) map.Refuse("data", "a number");
  } else if (!is_integer) {
    map.Refuse("data", "an integer");
  }
  return data;
}

Value RawScalar(const MarkedMap& map) {
  map.RequireKeys({"type", "data"}, {"kind", "shape"});
  const NumpyType type = map.TypeAt("type");
  const std::string_view data = map.BytesAt("data");
  if (data.size() != type.size) {
    throw DataError("expected {} bytes for a number {}, found {}", type.size, type.name,
                    data.size());
  }
  return ScalarIn(data, type);
}

// msgpack-numpy's kind tells of records and of pickled objects; it is empty otherwise.
void RequirePlainKind(const MarkedMap& map, const Member& kind) {
  const auto* text = kind.value.If<std::string>();
  if (kind.bytes ? kind.bytes->empty() : text != nullptr && text->empty()) return;
  map.Refuse("kind", "nothing in it: neither records nor objects are read");
}

// Reads the marked maps of one message.
class MarkedMapReader {
 public:
  MarkedMapReader(std::shared_ptr<const std::string> message, std::int64_t max_decoded_pixels)
      : message_(std::move(message)), max_decoded_(max_decoded_pixels) {}

  // Nothing if no key marks the map. Throws Error if the map is marked and otherwise wrong.
  std::optional<Value> Read(std::span<const Member> map) {
    const Member* mark = nullptr;
    for (const Member& member : map) {
      const std::string_view key = member.key;
      if (key == "__ndarray__" || key == "__npgeneric__" || key == "__image__" ||
          key == "__ndarray_class__" || (key == "nd" && member.value.If<bool>() != nullptr)) {
        mark = &member;
        break;
      }
    }
    if (mark == nullptr) return std::nullopt;
    const MarkedMap marked(mark->key, map);
    const auto note = [this](ArrayForm form) {
      if (!form_) form_ = form;
    };
    const ArrayForm form_of_key = mark->is_text_key ? ArrayForm::kVlaEval : ArrayForm::kOpenPi;
    if (mark->key == "__ndarray__") {
      marked.RequireKeys({"data", "dtype", "shape"});
      note(form_of_key);
      return ArrayIn(marked.BytesAt("data"), marked.TypeAt("dtype"), marked.ShapeAt("shape"),
                     message_);
    }
    if (mark->key == "__npgeneric__") {
      note(form_of_key);
      return PlainScalar(marked);
    }
    if (mark->key == "__image__") {
      note(ArrayForm::kVlaEval);
      return ReadImage(marked);
    }
    if (mark->key == "__ndarray_class__") {
      marked.RequireKeys({"as_npy"});
      note(ArrayForm::kNpy);
      return ReadNpy(marked.BytesAt("as_npy"), message_);
    }
    note(ArrayForm::kMsgpackNumpy);
    if (!*mark->value.If<bool>()) return RawScalar(marked);
    marked.RequireKeys({"type", "shape", "data"}, {"kind"});
    const auto kind = std::ranges::find(map, "kind"sv, &Member::key);
    if (kind != map.end()) RequirePlainKind(marked, *kind);
    return ArrayIn(marked.BytesAt("data"), marked.TypeAt("type"), marked.ShapeAt("shape"),
                   message_);
  }

  // Of the first marked map.
  std::optional<ArrayForm> form() const { return form_; }

 private:
  NdArray ReadImage(const MarkedMap& marked) {
    marked.RequireKeys({"format", "data", "shape"}, {"dtype"});
    const std::string& format = marked.TextAt("format");
    const std::string_view file = marked.BytesAt("data");
    Shape shape = marked.ShapeAt("shape");
    if (shape.size() != 3 || std::ranges::any_of(shape, [](auto size) { return size < 1; })) {
      throw DataError("'shape': expected [height, width, channels] of an image, found {}",
                      ToString(shape));
    }
    if (format == "raw") {
      marked.RequireKeys({"format", "data", "shape", "dtype"});
      const NumpyType type = marked.TypeAt("dtype");
      if (type.name != "|u1") throw DataError("'dtype': expected |u1, found {}", type.name);
      return ArrayIn(file, type, std::move(shape), message_);
    }
    if (format != "png" && format != "jpeg") {
      throw DataError("'format': expected raw, png or jpeg, found '{}'", Shown(format));
    }
    if (!file.starts_with(format == "png" ? "\x89PNG\r\n\x1a\n"sv : "\xff\xd8\xff"sv)) {
      throw DataError("'data': expected a {} file, found {} bytes of something else", format,
                      file.size());
    }
    return Decoded(std::as_bytes(std::span(file)), std::move(shape));
  }

  NdArray Decoded(std::span<const std::byte> file, Shape shape) {
    const auto [height, width, n_channels] = std::tuple(shape[0], shape[1], shape[2]);
    if (n_channels != 1 && n_channels != 3 && n_channels != 4) {
      throw DataError("'shape': expected an image of 1, 3 or 4 channels, found {}",
                      ToString(shape));
    }
    // the sides alone first, so that the product cannot overflow
    if (std::max(height, width) > max_decoded_ || height * width > max_decoded_ - n_decoded_) {
      throw DataError("an image {}: the images of a message may have {} pixels together",
                      ToString(shape), max_decoded_);
    }
    n_decoded_ += height * width;
    thread_local media::ImageDecoder decoder;  // opening a codec takes longer than a small image
    media::DecodedImage& image =
        decoder.Decode(file, static_cast<int>(width), static_cast<int>(height));
    const auto size = static_cast<std::size_t>(height * width * n_channels);
    const std::shared_ptr<std::uint8_t[]> pixels(new std::uint8_t[size]);
    if (n_channels == 3) {
      image.ToRgb({pixels.get(), size});
    } else if (n_channels == 4) {
      image.ToRgba({pixels.get(), size});
    } else {
      if (image.grey_bits() != 8) {
        throw DataError("expected an image of 8 bits per channel, found {}", image.grey_bits());
      }
      std::vector<float> grey(size);
      image.ToGrey(grey);
      std::ranges::transform(grey, pixels.get(), [](float level) {
        return static_cast<std::uint8_t>(std::lround(level));
      });
    }
    const auto* data = reinterpret_cast<const std::byte*>(pixels.get());
    return {"|u1", std::move(shape), std::shared_ptr<const std::byte>(pixels, data)};
  }

  std::shared_ptr<const std::string> message_;
  std::optional<ArrayForm> form_;
  std::int64_t max_decoded_;
  std::int64_t n_decoded_ = 0;  // pixels of all images
};

void RequireDistinctKeys(std::span<const Member> members) {
  std::vector<std::string_view> keys;
  keys.reserve(members.size());
  for (const Member& member : members) keys.push_back(member.key);
  std::ranges::sort(keys);
  const auto repeated = std::ranges::adjacent_find(keys);
  if (repeated != keys.end()) throw DataError("the key '{}' occurs twice", Shown(*repeated));
}

// Builds the value while msgpack-cxx walks through the message and calls these functions. Bytes in
// maps stay views until the map ends, because they may be the data of an array.
class ValueBuilder : public msgpack::null_visitor {
 public:
  ValueBuilder(std::shared_ptr<const std::string> message, std::int64_t max_decoded_pixels)
      : size_(message->size()), marked_(std::move(message), max_decoded_pixels) {}

  // NOLINTBEGIN(readability-identifier-naming): the names that msgpack-cxx calls
  bool visit_nil() { return Put({}); }
  bool visit_boolean(bool is_true) { return Put(is_true); }
  bool visit_positive_integer(std::uint64_t number) { return Put(IntegerOf(number)); }
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

  bool end_map() {
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
