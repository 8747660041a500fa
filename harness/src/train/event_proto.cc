// The field numbers and enum values are those of the .proto files named in the header.
#include "train/event_proto.h"

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

}  // namespace

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

}  // namespace dp_bench::train
