// See colour_checks.h.
#include "inspect/colour_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "inspect/demonstrations.h"
#include "inspect/usual_value.h"

namespace dp_bench::inspect {
namespace {

constexpr std::size_t kGrid = 4;
constexpr std::size_t kCells = kGrid * kGrid;
constexpr double kColouredCell = 8.0;       // red minus blue, of 255
constexpr std::size_t kMinColoured = 4;     // cells; fewer may belong to one object
constexpr double kMinExchangedShare = 0.6;  // of these cells
constexpr double kClearly = 2.0;            // times the distance

constexpr double kColouredPixel = 20.0;        // red minus blue, of 255
constexpr double kMinShare = 0.003;            // of the pixels
constexpr double kMinHues = 8.0;               // range of 90 % of the coloured pixels [degrees]
constexpr double kSmallestColourSpread = 1.5;  // of a mean colour, of 255

constexpr std::size_t kMaxSide = 128;  // [px]; larger pictures are subsampled

// What is compared of a picture with a grey mean.
struct ColourSummary {
  std::array<double, kCells> red_minus_blue = {};  // mean of each cell
  double coloured_share = 0.0;                     // of the pixels
  std::array<double, 3> mean_colour = {};          // of these pixels
  double hues = 0.0;  // range of their hues, on the side of red or blue [degrees]
};

// A picture [H, W, 3] whose channels are scaled so that their means are equal.
class GreyMeanPicture {
 public:
  GreyMeanPicture(const std::vector<std::uint8_t>& bytes, const KeySpec& key)
      : bytes_(bytes),
        height_(static_cast<std::size_t>(key.shape[1])),
        width_(static_cast<std::size_t>(key.shape[2])),
        stride_(std::max<std::size_t>(1, std::min(height_, width_) / kMaxSide)) {
    std::array<double, 3> sums = {};
    ForEachPixel([&](std::size_t /*cell*/, const std::array<double, 3>& colour) {
      for (std::size_t c = 0; c < 3; ++c) sums[c] += colour[c];
    });
    const double mean = (sums[0] + sums[1] + sums[2]) / 3.0;
    for (std::size_t c = 0; c < 3; ++c) scale_[c] = sums[c] > 0.0 ? mean / sums[c] : 1.0;
  }

  ColourSummary Summarize() const {
    ColourSummary summary;
    std::array<double, kCells> n_pixels = {};
    std::vector<float> hues;
    ForEachPixel([&](std::size_t cell, const std::array<double, 3>& colour) {
      const double difference = colour[0] - colour[2];
      n_pixels[cell] += 1.0;
      summary.red_minus_blue[cell] += difference;
      if (std::abs(difference) < kColouredPixel) return;
      for (std::size_t c = 0; c < 3; ++c) summary.mean_colour[c] += colour[c];
      hues.push_back(Hue(colour));
    });
    for (std::size_t i = 0; i < kCells; ++i)
      summary.red_minus_blue[i] /= std::max(1.0, n_pixels[i]);
    if (hues.empty()) return summary;
    for (double& c : summary.mean_colour) c /= static_cast<double>(hues.size());
    double n = 0.0;
    for (const double pixels : n_pixels) n += pixels;
    summary.coloured_share = static_cast<double>(hues.size()) / n;
    summary.hues = static_cast<double>(Quantile(hues, 0.95) - Quantile(hues, 0.05));
    return summary;
  }

 private:
  template <class Visit>
  void ForEachPixel(const Visit& visit) const {
    for (std::size_t row = 0; row < height_; row += stride_) {
      for (std::size_t column = 0; column < width_; column += stride_) {
        const std::uint8_t* pixel = bytes_.data() + 3 * (row * width_ + column);
        visit(row * kGrid / height_ * kGrid + column * kGrid / width_,
              {scale_[0] * pixel[0], scale_[1] * pixel[1], scale_[2] * pixel[2]});
      }
    }
  }

  // The angle from red, or from blue for bluish colours, towards green. An exchange of red and blue
  // does not change it, and neither do light and shadow on an object.
  static float Hue(const std::array<double, 3>& colour) {
    const double green = (2.0 * colour[1] - colour[0] - colour[2]) / std::numbers::sqrt3;
    const double angle = std::atan2(green, std::abs(colour[0] - colour[2]));
    return static_cast<float>(angle * 180.0 / std::numbers::pi);
  }

  const std::vector<std::uint8_t>& bytes_;
  std::size_t height_ = 0;
  std::size_t width_ = 0;
  std::size_t stride_ = 1;
  std::array<double, 3> scale_ = {1.0, 1.0, 1.0};
};

std::vector<ColourSummary> SummarizeFirstPictures(const Dataset& dataset, int key) {
  const KeySpec& spec = dataset.spec().keys[static_cast<std::size_t>(key)];
  std::vector<ColourSummary> summaries;
  std::int64_t begin = 0;
  for (const std::int64_t end : dataset.episode_ends()) {
    summaries.push_back(GreyMeanPicture(ReadImage(dataset, key, begin), spec).Summarize());
    begin = end;
  }
  return summaries;
}

// A number of every episode.
template <class Value>
std::vector<double> Collect(const std::vector<ColourSummary>& summaries, const Value& value) {
  std::vector<double> values;
  for (const ColourSummary& summary : summaries) values.push_back(value(summary));
  return values;
}

// Cells that are usually red or usually blue.
class ColouredCells {
 public:
  explicit ColouredCells(const std::vector<ColourSummary>& summaries) {
    for (std::size_t i = 0; i < kCells; ++i) {
      const double usual =
          MedianOf(Collect(summaries, [i](const ColourSummary& s) { return s.red_minus_blue[i]; }));
      if (std::abs(usual) > kColouredCell) usual_.emplace_back(i, usual);
    }
  }

  bool Decide() const { return usual_.size() >= kMinColoured; }

  bool AreExchanged(const ColourSummary& found) const {
    const auto n = std::ranges::count_if(usual_, [&](const auto& cell) {
      const double difference = found.red_minus_blue[cell.first];
      return kClearly * std::abs(difference + cell.second) < std::abs(difference - cell.second);
    });
    return static_cast<double>(n) >= kMinExchangedShare * static_cast<double>(usual_.size());
  }

 private:
  std::vector<std::pair<std::size_t, double>> usual_;  // cell, red minus blue
};

// The mean colour of the coloured pixels.
class ColouredPixels {
 public:
  explicit ColouredPixels(const std::vector<ColourSummary>& summaries) {
    for (std::size_t c = 0; c < 3; ++c) {
      usual_[c] =
          UsualOf(Collect(summaries, [c](const ColourSummary& s) { return s.mean_colour[c]; }),
                  kSmallestColourSpread);
    }
    share_ = MedianOf(Collect(summaries, [](const ColourSummary& s) { return s.coloured_share; }));
    hues_ = MedianOf(Collect(summaries, [](const ColourSummary& s) { return s.hues; }));
  }

  bool Decide() const {
    return share_ >= kMinShare && hues_ >= kMinHues &&
           usual_[0].Distance(usual_[2].median) > kFarFromUsual &&
           usual_[2].Distance(usual_[0].median) > kFarFromUsual;
  }

  bool AreExchanged(const ColourSummary& found) const {
    const auto& [red, green, blue] = found.mean_colour;
    return usual_[0].Distance(red) > kFarFromUsual && usual_[2].Distance(blue) > kFarFromUsual &&
           usual_[0].Distance(blue) <= kNearUsual && usual_[1].Distance(green) <= kNearUsual &&
           usual_[2].Distance(red) <= kNearUsual;
  }

 private:
  std::array<UsualValue, 3> usual_;
  double share_ = 0.0;
  double hues_ = 0.0;
};

}  // namespace

Finding CheckColourOrder(const Dataset& dataset) {
  const Finding hypothesis = {.id = "data.mixed_colour_order",
                              .claim = "episodes have red and blue exchanged",
                              .advice = "exchange the channels of these episodes, or drop them",
                              .certainty = Certainty::kLikely};
  const std::vector<KeySpec>& keys = dataset.spec().keys;
  std::vector<std::string> runs;
  std::vector<std::string> decided;
  const bool has_enough = std::ssize(dataset.episode_ends()) >= kMinUsualEpisodes;
  for (std::size_t k = 0; has_enough && k < keys.size(); ++k) {
    if (keys[k].type != KeyType::kRgb) continue;
    const auto summaries = SummarizeFirstPictures(dataset, static_cast<int>(k));
    const ColouredCells cells(summaries);
    const ColouredPixels pixels(summaries);
    if (!cells.Decide() && !pixels.Decide()) continue;
    decided.push_back(keys[k].name);
    std::vector<UnusualEpisode> found;
    for (std::size_t episode = 0; episode < summaries.size(); ++episode) {
      if ((cells.Decide() && cells.AreExchanged(summaries[episode])) ||
          (pixels.Decide() && pixels.AreExchanged(summaries[episode]))) {
        found.push_back({.episode = static_cast<std::int64_t>(episode)});
      }
    }
    const std::vector<std::string> described = DescribeRuns(keys[k].name, found);
    runs.insert(runs.end(), described.begin(), described.end());
  }
  if (decided.empty()) {
    return LeaveOpen(hypothesis, "no camera of at least five episodes sees enough colour");
  }
  return Decide(hypothesis, !runs.empty(),
                runs.empty() ? fmt::format("no episode of {} fits better with them exchanged",
                                           fmt::join(decided, ", "))
                             : ListSome(runs, "; "));
}

}  // namespace dp_bench::inspect
