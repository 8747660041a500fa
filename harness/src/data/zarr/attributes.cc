#include "data/zarr/attributes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "data/zarr/metadata.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxAttributeDepth = 64;

[[noreturn]] void RefuseAttributes(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::kData, fmt::format("{}: {}", file, what));
}

// Keeps two members of the object and drops the others as they are read: lists of a million
// episodes would take ten times the memory of their text. The method names are those that
// nlohmann/json requires of a SAX handler.
class AttributePicker {
 public:
  // In a zarr.json, the attributes are a member.
  AttributePicker(std::string file, bool is_node)
      : file_(std::move(file)), attribute_depth_(is_node ? 2 : 1) {}

  bool null() { return Take(nullptr); }
  bool boolean(bool value) { return Take(value); }
  bool number_integer(Json::number_integer_t value) { return Take(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Take(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return Take(value); }
  bool string(std::string& value) { return Take(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON text has none
  bool start_object(std::size_t) {
    if (depth_ == 0) is_object_ = true;
    return Open(Json::object());
  }
  bool start_array(std::size_t) { return Open(Json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& key) {
    if (depth_ == 1) is_attribute_ = attribute_depth_ == 1 || key == "attributes";
    if (depth_ == attribute_depth_) key_ = std::move(key);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) {
    constexpr std::size_t kMaxReason = 300;  // it quotes the text, which may be huge
    RefuseAttributes(file_, fmt::format("is not JSON: {}",
                                        std::string_view(fault.what()).substr(0, kMaxReason)));
  }

  bool is_object() const { return is_object_; }
  const std::optional<Json>& fps() const { return fps_; }
  const std::optional<Json>& complete() const { return complete_; }

 private:
  // Takes the value of a member of the object; a list or object arrives empty.
  bool Take(Json value) {
    if (depth_ != attribute_depth_ || !is_attribute_) return true;
    if (key_ == kFpsAttribute) {
      fps_ = std::move(value);
    } else if (key_ == kCompleteAttribute) {
      complete_ = std::move(value);
    }
    return true;
  }

  bool Open(Json empty) {
    Take(std::move(empty));
    if (++depth_ > kMaxAttributeDepth) {
      RefuseAttributes(file_, fmt::format("nested deeper than {} levels", kMaxAttributeDepth));
    }
    return true;
  }

  bool Close() {
    --depth_;
    return true;
  }

  std::string file_;
  std::size_t attribute_depth_;
  std::size_t depth_ = 0;
  bool is_object_ = false;
  bool is_attribute_ = false;  // what is read next
  std::string key_;
  std::optional<Json> fps_;
  std::optional<Json> complete_;
};

}  // namespace

ZarrAttributes ParseZarrAttributes(std::string_view text, const std::string& file, bool is_node) {
  AttributePicker picker(file, is_node);
  Json::sax_parse(text, &picker);
  if (!picker.is_object()) RefuseAttributes(file, "is not a JSON object");

  ZarrAttributes attributes;
  if (const auto& fps = picker.fps()) {
    const double value = fps->is_number() ? fps->get<double>() : 0.0;
    if (!(value >= kMinFps && value <= kMaxFps)) {
      RefuseAttributes(
          file, fmt::format("fps is {}; expected a number from {} to {}",
                            fps->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60),
                            kMinFps, kMaxFps));
    }
    attributes.fps = value;
  }
  if (const auto& complete = picker.complete()) {
    if (!complete->is_boolean()) RefuseAttributes(file, "complete is neither true nor false");
    attributes.is_growing = !complete->get<bool>();
  }
  return attributes;
}

ZarrAttributes ReadZarrAttributes(const Store& store, std::uint64_t max_bytes) {
  for (const char* file : {kAttributesFile, kNodeFile}) {
    if (!store.Peek(file, {})) continue;
    std::vector<std::byte> bytes;
    store.Read(file, max_bytes, &bytes);
    return ParseZarrAttributes({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                               store.Describe(file), file == kNodeFile);
  }
  return {};
}

}  // namespace dp_bench::zarr
