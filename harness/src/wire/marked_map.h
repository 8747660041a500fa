// Maps that stand for an array or a number of numpy. A key marks them:
//   __ndarray__, __npgeneric__   openpi (bytes keys), vla-eval (text keys)
//   __image__                    vla-eval: pixels, or a PNG or JPEG file
//   nd                           msgpack-numpy: true for an array, false for a number
//   __ndarray_class__            GR00T N1.6: a .npy file
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "wire/message.h"

namespace dp_bench::wire {

/// A key of a map with its value.
struct Member {
  std::string key;
  bool is_text_key = true;
  Value value;
  std::optional<std::string_view> bytes;  // within the message; `value` is empty then
};

/// Reads the marked maps of one message.
class MarkedMapReader {
 public:
  MarkedMapReader(std::shared_ptr<const std::string> message, std::int64_t max_decoded_pixels)
      : message_(std::move(message)), max_decoded_(max_decoded_pixels) {}

  /// Nothing if no key marks the map. Throws Error if the map is marked and otherwise wrong.
  std::optional<Value> Read(std::span<const Member> map);

  /// Of the first marked map.
  std::optional<ArrayForm> form() const { return form_; }

 private:
  NdArray ReadImage(std::span<const Member> map);
  NdArray Decoded(std::span<const std::byte> file, Shape shape);

  std::shared_ptr<const std::string> message_;
  std::optional<ArrayForm> form_;
  std::int64_t max_decoded_;
  std::int64_t n_decoded_ = 0;  // pixels of all images
};

}  // namespace dp_bench::wire
