// The statistics of a feature that LeRobot keeps for every episode and for the whole dataset, as
// LeRobot 0.6 computes them (compute_stats.py): quantiles come from a histogram of 5000 bins, and
// those of a dataset are means of those of its episodes. Sums are exact here; LeRobot's are
// rounded to float32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/metadata.h"

namespace dp_bench::core {
class JsonView;
}

namespace dp_bench::lerobot {

/// The lists of a FeatureStatistics, in this order.
enum Statistic : std::size_t { kMin, kMax, kMean, kStd, kFirstQuantile };
inline constexpr std::array<const char*, 9> kStatisticNames = {"min", "max", "mean", "std", "q01",
                                                               "q10", "q50", "q90",  "q99"};

struct FeatureStatistics {
  std::int64_t count = 0;                                         // frames
  std::array<std::vector<double>, kStatisticNames.size()> lists;  // of a number per channel

  bool operator==(const FeatureStatistics&) const = default;
};

/// Of numbers [n_frames, n_channels] with n_frames > 0. NaN and Inf do not count, because JSON has
/// neither; a channel with nothing else has zeros.
FeatureStatistics SummarizeNumbers(std::span<const double> values, std::size_t n_channels);

/// Of the images of an episode, of which LeRobot takes a sample: at least 100 frames if there are
/// so many, and of images with a side of 300 pixels or more only some rows and columns.
class ImageSummary {
 public:
  /// For an episode of `n_frames` images [height, width, n_channels]. Levels are below `n_levels`
  /// and are divided by `scale`.
  struct Shape {
    std::int64_t n_frames;
    int width;
    int height;
    int n_channels;
    std::size_t n_levels;
    double scale;
  };
  explicit ImageSummary(const Shape& shape);

  /// The next image. T is std::uint8_t or std::uint16_t.
  template <class T>
  void Add(std::span<const T> pixels);

  /// After the last image.
  FeatureStatistics Finish() const;

 private:
  Shape shape_;
  std::size_t stride_ = 1;                          // between rows and columns that are counted
  std::vector<std::int64_t> frames_;                // the sample
  std::size_t next_ = 0;                            // index in frames_
  std::int64_t n_seen_ = 0;                         // images
  std::vector<std::vector<std::uint64_t>> counts_;  // [channel][level]
};

/// The statistics of a dataset from those of its episodes, of which there is at least one.
FeatureStatistics Pool(std::span<const FeatureStatistics> episodes);

/// As in stats.json. The numbers of an image's channels have the shape [C, 1, 1].
nlohmann::json ToJson(const FeatureStatistics& statistics, bool is_image);

/// The inverse, without the shape of images. Throws Error{kData} naming file and place.
FeatureStatistics ReadStatistics(const core::JsonView& values);

/// The statistics of single episodes that meta/ of a LeRobot dataset has. They are those of the
/// images before they were encoded, which a copy of the video cannot give. By feature and
/// episode, of those of the cameras `features` of which meta/ has all statistics, with quantiles,
/// for all episodes. LeRobot 0.3 and older write no quantiles. `max_bytes` bounds the memory for
/// each table. Throws Error{kData} or Error{kIo} naming the file if it cannot be read at all.
std::map<std::string, std::vector<FeatureStatistics>> ReadEpisodeStatistics(
    const Metadata& metadata, const std::vector<std::string>& features, std::int64_t max_bytes);

/// What meta/ says about the range of each of these features over all episodes. Features whose
/// statistics are missing, also in one episode, are left out, which is logged. Throws Error{kData}
/// naming file and feature for statistics that cannot be.
std::map<std::string, StatedRange> ReadRanges(const Metadata& metadata,
                                              const std::vector<std::string>& features);

}  // namespace dp_bench::lerobot
