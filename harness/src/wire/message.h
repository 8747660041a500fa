// Messages in MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md) with arrays in
// the forms of openpi, vla-eval and GR00T. Messages are untrusted: sizes are checked before memory
// is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "wire/value.h"

namespace dp_bench::wire {

/// How a sender writes arrays.
enum class ArrayForm {
  kOpenPi,        // openpi_client.msgpack_numpy: bytes keys __ndarray__, data, dtype, shape
  kVlaEval,       // vla-eval: the same with text keys
  kMsgpackNumpy,  // the package msgpack-numpy, GR00T N1.7: bytes keys nd, type, kind, shape, data
  kNpy,           // GR00T N1.6: {"__ndarray_class__": true, "as_npy": a whole .npy file}
};

/// Levels of lists and maps in a message. An array is two of them, so that it can be written in
/// each form.
inline constexpr int kMaxDepth = 32;

/// Values in a message, keys included; an array's data are one. One byte can be a value, which
/// takes a hundred bytes of memory.
inline constexpr std::size_t kMaxValues = 1'000'000;

/// Pixels of all images of a message that are PNG or JPEG files.
inline constexpr std::int64_t kMaxDecodedPixels = std::int64_t{64} << 20;

struct Message {
  Value value;

  /// Of its first array or number of numpy; an answer uses the same.
  std::optional<ArrayForm> array_form;
};

/// Reads one value, whose arrays point into `bytes` (those that are a PNG or JPEG file, or an .npy
/// file in Fortran's order, have memory of their own). Reads arrays in each form, vla-eval's images
/// (raw, PNG, JPEG) as arrays |u1 [H, W, C], and numpy's scalars as numbers. Throws Error{kData},
/// with the place in the message, for anything that is cut off, larger than the limits,
/// followed by more bytes, an extension type, a key that is neither text nor bytes or occurs twice,
/// an array whose data do not fit its shape, big-endian, or of a dtype other than b, i, u and f.
Message Read(std::shared_ptr<const std::string> bytes,
             std::int64_t max_decoded_pixels = kMaxDecodedPixels);

/// Keys are text, integers have their shortest form, numbers are float64, as Python's msgpack
/// writes them. Throws Error{kData} if a text, list or array has more than 4 GiB.
std::string Write(const Value& value, ArrayForm form);

}  // namespace dp_bench::wire
