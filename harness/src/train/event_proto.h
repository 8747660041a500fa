// Event messages as TensorBoard defines them: tensorboard/compat/proto/event.proto, summary.proto,
// histogram.proto and tensor.proto. Each function returns the bytes of one message. Strings are
// UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "train/histogram.h"

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

}  // namespace dp_bench::train
