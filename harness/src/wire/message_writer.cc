#include <array>
#include <bit>
#include <msgpack.hpp>
#include <span>
#include <string>
#include <string_view>

#include "core/errors.h"
#include "wire/message.h"
#include "wire/npy.h"

namespace dp_bench::wire {
namespace {

// What msgpack::packer writes to.
class StringStream {
 public:
  explicit StringStream(std::string* bytes) : bytes_(bytes) {}
  void write(const char* data, std::size_t size) {  // NOLINT(readability-identifier-naming)
    bytes_->append(data, size);
  }

 private:
  std::string* bytes_;
};

class MessageWriter {
 public:
  MessageWriter(ArrayForm form, std::string* bytes)
      : form_(form), stream_(bytes), packer_(stream_) {}

  void Write(const Value& value) {
    std::visit([this](const auto& content) { Pack(content); },
               static_cast<const Value::variant&>(value));
  }

 private:
  void Pack(std::monostate) { packer_.pack_nil(); }
  void Pack(bool is_true) { is_true ? packer_.pack_true() : packer_.pack_false(); }
  void Pack(std::int64_t number) { packer_.pack_int64(number); }
  void Pack(std::uint64_t number) { packer_.pack_uint64(number); }
  // msgpack::packer writes whole numbers as integers; Python's msgpack does not.
  void Pack(double number) {
    const auto bits = std::bit_cast<std::uint64_t>(number);
    std::array<char, 9> bytes = {'\xcb'};
    for (std::size_t i = 0; i < 8; ++i) bytes[1 + i] = static_cast<char>(bits >> (56 - 8 * i));
    stream_.write(bytes.data(), bytes.size());
  }
  void Pack(const std::string& text) { PackText(text); }
  void Pack(const Bytes& bytes) { PackBytes(bytes); }

  void Pack(const List& list) {
    packer_.pack_array(Count(list.size()));
    for (const Value& value : list) Write(value);
  }

  void Pack(const Map& map) {
    packer_.pack_map(Count(map.entries().size()));
    for (const auto& [key, value] : map.entries()) {
      PackText(key);
      Write(value);
    }
  }

  void Pack(const NdArray& array) {
    switch (form_) {
      case ArrayForm::kOpenPi:
      case ArrayForm::kVlaEval:
        packer_.pack_map(4);
        PackMark("__ndarray__");
        PackKey("data");
        PackBytes(array.bytes());
        PackKey("dtype");
        PackText(array.dtype);
        PackKey("shape");
        PackShape(array.shape);
        break;
      case ArrayForm::kMsgpackNumpy:
        packer_.pack_map(5);
        PackMark("nd");
        PackKey("type");
        PackText(array.dtype);
        PackKey("kind");
        PackBytes({});
        PackKey("shape");
        PackShape(array.shape);
        PackKey("data");
        PackBytes(array.bytes());
        break;
      case ArrayForm::kNpy: {
        const std::string header = NpyHeader(array);
        packer_.pack_map(2);
        PackMark("__ndarray_class__");
        PackKey("as_npy");
        packer_.pack_bin(Count(header.size() + array.byte_size()));
        PackBody(std::as_bytes(std::span(header)));
        PackBody(array.bytes());
        break;
      }
    }
  }

  void PackMark(std::string_view key) {
    PackKey(key);
    packer_.pack_true();
  }

  void PackKey(std::string_view key) {
    if (form_ == ArrayForm::kVlaEval || form_ == ArrayForm::kNpy) {
      PackText(key);
    } else {
      PackBytes(std::as_bytes(std::span(key)));
    }
  }

  void PackShape(const Shape& shape) {
    packer_.pack_array(Count(shape.size()));
    for (const std::int64_t size : shape) packer_.pack_int64(size);
  }

  void PackText(std::string_view text) {
    packer_.pack_str(Count(text.size()));
    packer_.pack_str_body(text.data(), Count(text.size()));
  }

  void PackBytes(std::span<const std::byte> bytes) {
    packer_.pack_bin(Count(bytes.size()));
    PackBody(bytes);
  }

  void PackBody(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;  // of an array without data
    packer_.pack_bin_body(reinterpret_cast<const char*>(bytes.data()), Count(bytes.size()));
  }

  static std::uint32_t Count(std::size_t size) {
    if (size > UINT32_MAX) {
      throw DataError("MessagePack has at most 4 GiB of bytes or elements, found {}", size);
    }
    return static_cast<std::uint32_t>(size);
  }

  ArrayForm form_;
  StringStream stream_;
  msgpack::packer<StringStream> packer_;
};

std::size_t DataBytes(const Value& value) {
  std::size_t n_bytes = 0;
  if (const auto* array = value.If<NdArray>()) return array->byte_size();
  if (const auto* list = value.If<List>()) {
    for (const Value& element : *list) n_bytes += DataBytes(element);
  } else if (const auto* map = value.If<Map>()) {
    for (const auto& [key, element] : map->entries()) n_bytes += DataBytes(element);
  }
  return n_bytes;
}

}  // namespace

std::string Write(const Value& value, ArrayForm form) {
  constexpr std::size_t kForTheRest = 4096;
  std::string bytes;
  bytes.reserve(DataBytes(value) + kForTheRest);
  MessageWriter(form, &bytes).Write(value);
  return bytes;
}

}  // namespace dp_bench::wire
