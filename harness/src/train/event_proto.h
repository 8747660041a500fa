// Event messages as TensorBoard defines them: tensorboard/compat/proto/event.proto, summary.proto,
// histogram.proto and tensor.proto. Each function returns the bytes of one message. Strings are
// UTF-8.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "train/histogram.h"
#include "train/tfrecord.h"

namespace dp_bench::train {

/// The time of an event in seconds since 1970, and its step, the x axis of the curves.
struct EventTime {
  double wall_time = 0.0;
  std::int64_t step = 0;
};

/// The first event of every file.
std::string FileVersionEvent(double wall_time);

/// SessionLog START: readers drop data of earlier files in the folder at `time.step` and beyond.
std::string SessionStartEvent(EventTime time);

std::string ScalarEvent(EventTime time, std::string_view tag, float value);

std::string HistogramEvent(EventTime time, std::string_view tag, const Histogram& histogram);

/// An RGB picture as the bytes of a PNG file.
std::string ImageEvent(EventTime time, std::string_view tag, int width, int height,
                       std::string_view png);

/// Markdown, as a string tensor without axes for the text plugin.
std::string TextEvent(EventTime time, std::string_view tag, std::string_view text);

// The part of the protocol buffers wire format (protobuf.dev/programming-guides/encoding) that
// Event messages need. Fields added in the order of their numbers give the same bytes as Google's
// serializer.

/// Builds one message. In proto3, a number outside a oneof is omitted if it is zero: AddInt64 and
/// AddDouble do that, the others always write.
class ProtoEncoder {
 public:
  /// int64, bool or enum.
  void AddInt64(int field, std::int64_t value) {
    if (value == 0) return;
    AddTag(field, kVarint);
    AddVarint(static_cast<std::uint64_t>(value));
  }

  void AddDouble(int field, double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    if (bits == 0) return;  // but not -0.0
    AddTag(field, kFixed64);
    AppendLittleEndian(bits, &message_);
  }

  /// A float inside a oneof.
  void AddFloat(int field, float value) {
    AddTag(field, kFixed32);
    AppendLittleEndian(std::bit_cast<std::uint32_t>(value), &message_);
  }

  /// A string, bytes, or an encoded message.
  void AddBytes(int field, std::string_view bytes) {
    AddTag(field, kLengthDelimited);
    AddVarint(bytes.size());
    message_ += bytes;
  }

  void AddMessage(int field, const ProtoEncoder& message) { AddBytes(field, message.message_); }

  /// A repeated double with [packed = true].
  void AddPackedDoubles(int field, std::span<const double> values) {
    AddTag(field, kLengthDelimited);
    AddVarint(values.size_bytes());
    for (const double value : values) {
      AppendLittleEndian(std::bit_cast<std::uint64_t>(value), &message_);
    }
  }

  /// Returns the bytes of the message and leaves the encoder empty.
  std::string Take() { return std::exchange(message_, {}); }

 private:
  enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void AddTag(int field, WireType type) {
    AddVarint((static_cast<std::uint64_t>(field) << 3) | type);
  }

  // Seven bits per byte, lowest first; the top bit means that more bytes follow.
  void AddVarint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) message_ += static_cast<char>(value | 0x80);
    message_ += static_cast<char>(value);
  }

  std::string message_;
};

}  // namespace dp_bench::train
