// Histograms with TensorFlow's buckets (tensorflow/core/lib/histogram/histogram.cc), which
// tensorboardX calls bins='tensorflow'.
#pragma once

#include <span>
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

/// Counts values in buckets that grow by a factor of 1.1 from 1e-12 to 1e20 on both sides of zero.
/// Runs of empty buckets become one, as in TensorFlow's compression. NaN and infinities are in no
/// bucket, but make the sums NaN or infinite.
Histogram MakeHistogram(std::span<const float> values);

}  // namespace dp_bench::train
