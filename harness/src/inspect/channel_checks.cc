// See channel_checks.h.
#include "inspect/channel_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dp_bench::inspect {
namespace {

constexpr std::int64_t kMinEpisodes = 5;  // fewer have no usual values
constexpr std::size_t kMaxPairs = 4;      // listed

constexpr double kFar = 6.0;               // a channel is not itself beyond this many deviations
constexpr double kNearFirst = 3.0;         // it may be another one within these many
constexpr double kNearMean = 5.0;          // whose mean depends on the episode
constexpr double kSmallestSpread = 0.02;   // of the usual range of a channel
constexpr double kMadToDeviation = 1.483;  // of a normal distribution

constexpr std::size_t kGrid = 4;             // a picture is compared as kGrid x kGrid colours
constexpr double kColourDifference = 12.0;   // of red and blue, of 255
constexpr std::size_t kMinColoured = 4;      // cells; fewer may belong to one object
constexpr double kMinExchangedShare = 0.75;  // of these cells
constexpr double kClearly = 4.0;             // times the squared distance

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// How a number of an episode, such as its first value, is distributed over the episodes.
struct Usual {
  double median = 0.0;
  double deviation = 0.0;

  double Distance(double value) const { return std::abs(value - median) / deviation; }
};

Usual UsualOf(const std::vector<double>& values, double smallest) {
  Usual usual = {.median = MedianOf(values)};
  std::vector<double> distances = values;
  for (double& value : distances) value = std::abs(value - usual.median);
  usual.deviation = std::max(kMadToDeviation * MedianOf(std::move(distances)), smallest);
  return usual;
}

// The first value and the mean of each channel in each episode.
class ChannelSummary {
 public:
  ChannelSummary(const Demonstrations& data, const Signal& signal) : signal_(signal) {
    const auto dim = static_cast<std::size_t>(signal.dim);
    first_.resize(dim);
    mean_.resize(dim);
    for (std::int64_t episode = 0; episode < data.n_episodes(); ++episode) Add(data, episode);
    const double smallest = kSmallestSpread * UsualRange();
    if (smallest <= 0.0) return;
    for (std::size_t d = 0; d < dim; ++d) {
      usual_first_.push_back(UsualOf(first_[d], smallest));
      usual_mean_.push_back(UsualOf(mean_[d], smallest));
    }
  }

  const std::string& name() const { return signal_.name; }

  // Whether the usual first values of any two channels differ clearly.
  bool TellsChannelsApart() const {
    for (const Usual& a : usual_first_) {
      for (const Usual& b : usual_first_) {
        if (a.Distance(b.median) > kFar && b.Distance(a.median) > kFar) return true;
      }
    }
    return false;
  }

  // Pairs of a channel and the one whose values it has; empty if the order is the usual one.
  std::vector<std::pair<std::size_t, std::size_t>> Exchanged(std::size_t episode) const {
    std::vector<std::size_t> misplaced;
    for (std::size_t d = 0; d < usual_first_.size(); ++d) {
      if (usual_first_[d].Distance(first_[d][episode]) > kFar) misplaced.push_back(d);
    }
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    std::vector<std::size_t> taken;
    for (const std::size_t d : misplaced) {
      const std::optional<std::size_t> other = BestOf(misplaced, d, episode);
      if (!other || std::ranges::find(taken, *other) != taken.end()) return {};
      taken.push_back(*other);
      pairs.emplace_back(d, *other);
    }
    return pairs;
  }

 private:
  void Add(const Demonstrations& data, std::int64_t episode) {
    const std::int64_t begin = data.EpisodeBegin(episode);
    const std::int64_t end = data.EpisodeEnd(episode);
    for (std::int64_t d = 0; d < signal_.dim; ++d) {
      double sum = 0.0;
      for (std::int64_t t = begin; t < end; ++t) sum += static_cast<double>(signal_.at(t, d));
      first_[static_cast<std::size_t>(d)].push_back(signal_.at(begin, d));
      mean_[static_cast<std::size_t>(d)].push_back(sum / static_cast<double>(end - begin));
    }
  }

  // The median over the channels of the range of their values.
  double UsualRange() const {
    std::vector<double> ranges;
    for (std::int64_t d = 0; d < signal_.dim; ++d) {
      const std::vector<float> column = signal_.Column(d);
      const auto [low, high] = std::ranges::minmax(column);
      ranges.push_back(static_cast<double>(high) - static_cast<double>(low));
    }
    return MedianOf(std::move(ranges));
  }

  // The other misplaced channel whose usual values are nearest to those of `d` in this episode.
  std::optional<std::size_t> BestOf(const std::vector<std::size_t>& misplaced, std::size_t d,
                                    std::size_t episode) const {
    std::optional<std::size_t> best;
    double smallest = kNearFirst + kNearMean;
    for (const std::size_t other : misplaced) {
      const double first = usual_first_[other].Distance(first_[d][episode]);
      const double mean = usual_mean_[other].Distance(mean_[d][episode]);
      if (other == d || first > kNearFirst || mean > kNearMean || first + mean >= smallest) {
        continue;
      }
      smallest = first + mean;
      best = other;
    }
    return best;
  }

  const Signal& signal_;
  std::vector<std::vector<double>> first_;  // [dim][episode]
  std::vector<std::vector<double>> mean_;   // [dim][episode]
  std::vector<Usual> usual_first_;          // [dim]; empty if no channel changes
  std::vector<Usual> usual_mean_;
};

std::string Describe(const std::string& key, std::size_t episode,
                     const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  std::vector<std::string> parts;
  for (const auto& [channel, other] : pairs) {
    parts.push_back(fmt::format("[{}] has the values of [{}]", channel, other));
  }
  if (parts.size() > kMaxPairs) parts.resize(kMaxPairs);
  return fmt::format("'{}' in episode {}, from step 0: {}{}", key, episode, fmt::join(parts, ", "),
                     parts.size() < pairs.size() ? ", ..." : "");
}

using Colour = std::array<double, 3>;
using Thumbnail = std::array<Colour, kGrid * kGrid>;  // mean colours

void AddPicture(const std::vector<std::uint8_t>& bytes, std::size_t height, std::size_t width,
                double weight, Thumbnail* mean) {
  for (std::size_t cell = 0; cell < mean->size(); ++cell) {
    const std::size_t top = cell / kGrid * height / kGrid;
    const std::size_t bottom = (cell / kGrid + 1) * height / kGrid;
    const std::size_t left = cell % kGrid * width / kGrid;
    const std::size_t right = (cell % kGrid + 1) * width / kGrid;
    const double share = weight / static_cast<double>((bottom - top) * (right - left));
    for (std::size_t row = top; row < bottom; ++row) {
      for (std::size_t column = left; column < right; ++column) {
        for (std::size_t c = 0; c < 3; ++c) {
          (*mean)[cell][c] += share * bytes[3 * (row * width + column) + c];
        }
      }
    }
  }
}

std::vector<Thumbnail> ThumbnailsOf(const Dataset& dataset, int key) {
  const KeySpec& spec = dataset.spec().keys[static_cast<std::size_t>(key)];
  const auto height = static_cast<std::size_t>(spec.shape[1]);
  const auto width = static_cast<std::size_t>(spec.shape[2]);
  std::vector<Thumbnail> thumbnails;
  std::int64_t begin = 0;
  for (const std::int64_t end : dataset.episode_ends()) {
    Thumbnail mean = {};
    for (const std::int64_t step : {begin, begin + (end - begin) / 2}) {
      AddPicture(ReadImage(dataset, key, step), height, width, 0.5, &mean);
    }
    thumbnails.push_back(mean);
    begin = end;
  }
  return thumbnails;
}

Thumbnail MedianOf(const std::vector<Thumbnail>& thumbnails) {
  Thumbnail median = {};
  for (std::size_t cell = 0; cell < median.size(); ++cell) {
    for (std::size_t c = 0; c < 3; ++c) {
      std::vector<double> values;
      for (const Thumbnail& thumbnail : thumbnails) values.push_back(thumbnail[cell][c]);
      median[cell][c] = MedianOf(std::move(values));
    }
  }
  return median;
}

// The cells in which an exchange of red and blue would be seen.
std::vector<std::size_t> ColouredCells(const Thumbnail& usual) {
  std::vector<std::size_t> cells;
  for (std::size_t cell = 0; cell < usual.size(); ++cell) {
    if (std::abs(usual[cell][0] - usual[cell][2]) > kColourDifference) cells.push_back(cell);
  }
  return cells;
}

bool IsExchanged(const Thumbnail& found, const Thumbnail& usual,
                 const std::vector<std::size_t>& cells) {
  const auto distance = [](const Colour& a, double red, double blue) {
    return (a[0] - red) * (a[0] - red) + (a[2] - blue) * (a[2] - blue);
  };
  const auto n = std::ranges::count_if(cells, [&](std::size_t cell) {
    const Colour& colour = found[cell];
    return kClearly * distance(usual[cell], colour[2], colour[0]) <
           distance(usual[cell], colour[0], colour[2]);
  });
  return static_cast<double>(n) >= kMinExchangedShare * static_cast<double>(cells.size());
}

}  // namespace

Finding CheckChannelOrder(const Demonstrations& data) {
  const Finding hypothesis = {.id = "data.mixed_channel_order",
                              .claim = "episodes have their numbers in another order",
                              .advice =
                                  "bring the channels of these episodes into the order of "
                                  "the others, or drop the episodes",
                              .certainty = Certainty::kLikely};
  if (data.n_episodes() < kMinEpisodes) {
    return LeaveOpen(hypothesis, fmt::format("fewer than {} episodes", kMinEpisodes));
  }
  std::vector<std::string> found;
  bool is_decided = false;
  for (const Signal& signal : data.signals) {
    const ChannelSummary summary(data, signal);
    is_decided = is_decided || summary.TellsChannelsApart();
    for (std::size_t episode = 0; episode < data.episode_ends.size(); ++episode) {
      const auto pairs = summary.Exchanged(episode);
      if (!pairs.empty()) found.push_back(Describe(summary.name(), episode, pairs));
    }
  }
  if (!is_decided) {
    return LeaveOpen(hypothesis, "the first values of episodes do not tell channels apart");
  }
  return Decide(hypothesis, !found.empty(),
                found.empty() ? fmt::format("in {} episodes no number has the values of another",
                                            data.n_episodes())
                              : ListSome(found, "; "));
}

Finding CheckColourOrder(const Dataset& dataset) {
  const Finding hypothesis = {.id = "data.mixed_colour_order",
                              .claim = "episodes have red and blue exchanged",
                              .advice = "exchange the channels of these episodes, or drop them",
                              .certainty = Certainty::kLikely};
  const std::vector<KeySpec>& keys = dataset.spec().keys;
  std::vector<std::string> found;
  std::vector<std::string> decided;
  const bool has_enough = std::ssize(dataset.episode_ends()) >= kMinEpisodes;
  for (std::size_t k = 0; has_enough && k < keys.size(); ++k) {
    if (keys[k].type != KeyType::kRgb) continue;
    const std::vector<Thumbnail> thumbnails = ThumbnailsOf(dataset, static_cast<int>(k));
    const Thumbnail usual = MedianOf(thumbnails);
    const std::vector<std::size_t> cells = ColouredCells(usual);
    if (cells.size() < kMinColoured) continue;
    decided.push_back(keys[k].name);
    for (std::size_t episode = 0; episode < thumbnails.size(); ++episode) {
      if (!IsExchanged(thumbnails[episode], usual, cells)) continue;
      found.push_back(fmt::format("'{}' in episode {}, from step 0", keys[k].name, episode));
    }
  }
  if (decided.empty()) {
    return LeaveOpen(hypothesis, "no camera of at least five episodes sees enough colour");
  }
  return Decide(hypothesis, !found.empty(),
                found.empty() ? fmt::format("no episode of {} fits better with them exchanged",
                                            fmt::join(decided, ", "))
                              : ListSome(found, "; "));
}

}  // namespace dp_bench::inspect
