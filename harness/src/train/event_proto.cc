// The field numbers and enum values are those of the .proto files named in the header.
#include "train/event_proto.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>

#include "core/crc32c.h"
#include "core/proto_encoder.h"

namespace dp_bench::train {
namespace {

using core::ProtoEncoder;

namespace event_field {
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kFileVersion = 3;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;
}  // namespace event_field

namespace value_field {  // of Summary.Value
constexpr int kTag = 1;
constexpr int kSimpleValue = 2;
constexpr int kImage = 4;
constexpr int kHistogram = 5;
constexpr int kTensor = 8;
constexpr int kMetadata = 9;
}  // namespace value_field

constexpr std::int64_t kSessionStart = 1;
constexpr std::int64_t kColorspaceRgb = 3;
constexpr std::int64_t kDataTypeString = 7;

ProtoEncoder EventAt(EventTime time) {
  ProtoEncoder event;
  event.AddDouble(event_field::kWallTime, time.wall_time);
  event.AddInt64(event_field::kStep, time.step);
  return event;
}

ProtoEncoder ValueOf(std::string_view tag) {
  ProtoEncoder value;
  value.AddBytes(value_field::kTag, tag);
  return value;
}

// An Event with a Summary of one value.
std::string SummaryEvent(EventTime time, const ProtoEncoder& value) {
  ProtoEncoder summary;
  summary.AddMessage(1, value);
  ProtoEncoder event = EventAt(time);
  event.AddMessage(event_field::kSummary, summary);
  return event.Take();
}

// tensorflow/core/lib/hash/crc32c.h masks the CRC, because the CRC of bytes that contain their own
// CRC would be degenerate.
std::uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(core::Crc32c(bytes), 15) + 0xA282EAD8;
}

constexpr double kSmallestLimit = 1e-12;
constexpr double kLargestLimit = 1e20;
constexpr double kGrowth = 1.1;

// Limits from -DBL_MAX over 0 to DBL_MAX, ascending.
std::vector<double> MakeLimits() {
  std::vector<double> positive;
  for (double limit = kSmallestLimit; limit < kLargestLimit; limit *= kGrowth) {
    positive.push_back(limit);
  }
  positive.push_back(std::numeric_limits<double>::max());

  std::vector<double> limits;
  std::transform(positive.rbegin(), positive.rend(), std::back_inserter(limits), std::negate<>());
  limits.push_back(0.0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

const std::vector<double>& Limits() {
  static const std::vector<double> limits = MakeLimits();
  return limits;
}

// Appends the buckets to the histogram. Each run of empty ones becomes one with the run's last
// limit.
void Compress(const std::vector<double>& counts, Histogram* histogram) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool continues = i + 1 < counts.size() && counts[i] == 0.0 && counts[i + 1] == 0.0;
    if (continues) continue;
    histogram->bucket_limits.push_back(Limits()[i]);
    histogram->buckets.push_back(counts[i]);
  }
}

}  // namespace

Histogram MakeHistogram(std::span<const float> values) {
  Histogram histogram;
  histogram.num = static_cast<double>(values.size());
  histogram.min = std::numeric_limits<double>::infinity();
  histogram.max = -std::numeric_limits<double>::infinity();
  std::vector<double> counts(Limits().size());
  for (const float single : values) {
    const double value = single;
    histogram.sum += value;
    histogram.sum_squares += value * value;
    if (!std::isfinite(value)) continue;
    histogram.min = std::min(histogram.min, value);
    histogram.max = std::max(histogram.max, value);
    const auto limit = std::ranges::upper_bound(Limits(), value);
    ++counts[static_cast<std::size_t>(limit - Limits().begin())];
  }
  if (histogram.min > histogram.max) {
    histogram.min = histogram.max = std::numeric_limits<double>::quiet_NaN();
  }
  Compress(counts, &histogram);
  return histogram;
}

std::string FileVersionEvent(double wall_time) {
  ProtoEncoder event = EventAt({.wall_time = wall_time});
  event.AddBytes(event_field::kFileVersion, "brain.Event:2");
  return event.Take();
}

std::string SessionStartEvent(EventTime time) {
  ProtoEncoder session_log;
  session_log.AddInt64(1, kSessionStart);
  ProtoEncoder event = EventAt(time);
  event.AddMessage(event_field::kSessionLog, session_log);
  return event.Take();
}

std::string ScalarEvent(EventTime time, std::string_view tag, float value) {
  ProtoEncoder summary_value = ValueOf(tag);
  summary_value.AddFloat(value_field::kSimpleValue, value);
  return SummaryEvent(time, summary_value);
}

std::string HistogramEvent(EventTime time, std::string_view tag, const Histogram& histogram) {
  ProtoEncoder message;
  message.AddDouble(1, histogram.min);
  message.AddDouble(2, histogram.max);
  message.AddDouble(3, histogram.num);
  message.AddDouble(4, histogram.sum);
  message.AddDouble(5, histogram.sum_squares);
  message.AddPackedDoubles(6, histogram.bucket_limits);
  message.AddPackedDoubles(7, histogram.buckets);
  ProtoEncoder value = ValueOf(tag);
  value.AddMessage(value_field::kHistogram, message);
  return SummaryEvent(time, value);
}

std::string ImageEvent(EventTime time, std::string_view tag, int width, int height,
                       std::string_view png) {
  ProtoEncoder image;
  image.AddInt64(1, height);
  image.AddInt64(2, width);
  image.AddInt64(3, kColorspaceRgb);
  image.AddBytes(4, png);
  ProtoEncoder value = ValueOf(tag);
  value.AddMessage(value_field::kImage, image);
  return SummaryEvent(time, value);
}

std::string TextEvent(EventTime time, std::string_view tag, std::string_view text) {
  ProtoEncoder tensor;
  tensor.AddInt64(1, kDataTypeString);
  tensor.AddMessage(2, ProtoEncoder());  // a shape without axes
  tensor.AddBytes(8, text);
  ProtoEncoder plugin_data;
  plugin_data.AddBytes(1, "text");
  ProtoEncoder metadata;
  metadata.AddMessage(1, plugin_data);

  ProtoEncoder value = ValueOf(tag);
  value.AddMessage(value_field::kTensor, tensor);
  value.AddMessage(value_field::kMetadata, metadata);
  return SummaryEvent(time, value);
}

void AppendTfRecord(std::string_view data, std::string* out) {
  std::string length;
  core::AppendLittleEndian(std::uint64_t{data.size()}, &length);
  *out += length;
  core::AppendLittleEndian(MaskedCrc32c(length), out);
  *out += data;
  core::AppendLittleEndian(MaskedCrc32c(data), out);
}

}  // namespace dp_bench::train
