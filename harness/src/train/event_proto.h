// Event messages as TensorBoard defines them: tensorboard/compat/proto/event.proto, summary.proto,
// histogram.proto and tensor.proto, and the records that hold them in a file. Strings are UTF-8.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::train {

/// A HistogramProto (tensorboard/compat/proto/histogram.proto). Bucket i counts the values in
/// [bucket_limits[i - 1], bucket_limits[i]).
struct Histogram {
  double min = 0.0;  // of the finite values; NaN if there are none
  double max = 0.0;
  double num = 0.0;  // all values
  double sum = 0.0;
  double sum_squares = 0.0;
  std::vector<double> bucket_limits;
  std::vector<double> buckets;
};

/// Counts values in TensorFlow's buckets (tensorflow/core/lib/histogram/histogram.cc) that grow by
/// a factor of 1.1 from 1e-12 to 1e20 on both sides of zero. Runs of empty buckets become one, as
/// in TensorFlow's compression. NaN and infinities are in no bucket, but make the sums NaN or
/// infinite.
Histogram MakeHistogram(std::span<const float> values);

/// The time of an event in seconds since 1970, and its step, the x axis of the curves.
struct EventTime {
  double wall_time = 0.0;
  std::int64_t step = 0;
};

// Each of the following functions returns the bytes of one message.

/// The first event of every file.
std::string FileVersionEvent(double wall_time);

/// SessionLog START: readers drop data of earlier files in the folder at `time.step` and beyond.
std::string SessionStartEvent(EventTime time);

std::string ScalarEvent(EventTime time, std::string_view tag, float value);

std::string HistogramEvent(EventTime time, std::string_view tag, const Histogram& histogram);

/// An RGB image as the bytes of a PNG file.
std::string ImageEvent(EventTime time, std::string_view tag, int width, int height,
                       std::string_view png);

/// Markdown, as a string tensor without axes for the text plugin.
std::string TextEvent(EventTime time, std::string_view tag, std::string_view text);

/// Appends `data` as one record to `out`: TFRecord framing
/// (tensorflow/core/lib/io/record_writer.h), in which a reader detects damaged and incomplete
/// records. All numbers are little endian:
///   uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data
void AppendTfRecord(std::string_view data, std::string* out);

}  // namespace dp_bench::train
