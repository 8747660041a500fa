// See env_checks.h.
#include "diagnose/env_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "plugin/obs_memory.h"

namespace dp_bench::diagnose {
namespace {

// Where episodes start in evaluation.
constexpr std::uint64_t kFirstSeed = 100000;
constexpr int kResets = 16;

constexpr double kMaxOutsideShare = 0.005;
constexpr double kMaxResetsOutside = 0.5;
constexpr double kMargin = 0.25;  // of the range of the data, on each side
constexpr int kMaxFrames = 64;

using Colour = std::array<double, 3>;

// The mean over several frames of a colour picture's channel means, and its variance.
struct ChannelMeans {
  Colour mean = {};
  Colour variance = {};
};

// The first observations of the env's episodes, by key.
struct FirstObservations {
  std::map<std::string, std::vector<std::vector<float>>> numbers;  // keys that the data have too
  std::map<std::string, std::vector<Colour>> colours;              // of rgb keys, their means
};

Colour MeanColour(const std::uint8_t* pixels, std::size_t n_bytes) {
  Colour sums = {};
  for (std::size_t i = 0; i < n_bytes; ++i) sums[i % 3] += pixels[i];
  for (double& sum : sums) sum /= static_cast<double>(n_bytes) / 3.0;
  return sums;
}

ChannelMeans Summarize(const std::vector<Colour>& frames) {
  ChannelMeans means;
  const auto n = static_cast<double>(frames.size());
  for (std::size_t c = 0; c < 3; ++c) {
    for (const Colour& frame : frames) means.mean[c] += frame[c] / n;
    for (const Colour& frame : frames)
      means.variance[c] += std::pow(frame[c] - means.mean[c], 2) / n;
    means.variance[c] = means.variance[c] / n + 1e-3;  // of the mean; 1e-3 for pixel rounding
  }
  return means;
}

// Squared distance of two means in standard errors, channel c of `a` to order[c] of `b`.
double Distance(const ChannelMeans& a, const ChannelMeans& b,
                const std::array<std::size_t, 3>& order) {
  double distance = 0.0;
  for (std::size_t c = 0; c < 3; ++c) {
    distance += std::pow(a.mean[c] - b.mean[order[c]], 2) / (a.variance[c] + b.variance[order[c]]);
  }
  return distance;
}

ChannelMeans MeansOfData(const Dataset& dataset, const KeySpec& key) {
  std::vector<Colour> frames;
  const int index = dataset.KeyIndex(key.name);
  for (const std::int64_t step : Spread(dataset.episode_ends().back(), kMaxFrames)) {
    const std::vector<std::uint8_t> image = ReadImage(dataset, index, step);
    frames.push_back(MeanColour(image.data(), image.size()));
  }
  return Summarize(frames);
}

FirstObservations ObserveStarts(Env& env, const Demonstrations& data, const ShapeMeta& meta) {
  plugin::ObsMemory memory(env.spec());
  FirstObservations first;
  for (int i = 0; i < kResets; ++i) {
    env.Reset(kFirstSeed + static_cast<std::uint64_t>(i));
    memory.Observe(env);
    for (const KeySpec& key : meta.obs) {
      const auto found = std::ranges::find(memory.keys(), key.name, &KeySpec::name);
      if (found == memory.keys().end()) continue;
      const auto bytes = memory[static_cast<std::size_t>(found - memory.keys().begin())];
      if (key.type == KeyType::kRgb) {
        const auto* pixels = reinterpret_cast<const std::uint8_t*>(bytes.data());
        first.colours[key.name].push_back(MeanColour(pixels, bytes.size()));
      } else if (data.Find(key.name) != nullptr) {
        std::vector<float>& numbers = first.numbers[key.name].emplace_back();
        numbers.resize(bytes.size() / sizeof(float));
        std::memcpy(numbers.data(), bytes.data(), bytes.size());
      }
    }
  }
  return first;
}

// How many first observations lie outside the data's range in dimension d.
double ShareOutside(const Signal& signal, std::int64_t d,
                    const std::vector<std::vector<float>>& observed) {
  const std::vector<float> column = signal.Column(d);
  const double low = std::ranges::min(column);
  const double high = std::ranges::max(column);
  const double margin = kMargin * (high - low) + 1e-3;
  const auto n_outside = std::ranges::count_if(observed, [&](const std::vector<float>& obs) {
    const double value = obs[static_cast<std::size_t>(d)];
    return value < low - margin || value > high + margin;
  });
  return static_cast<double>(n_outside) / static_cast<double>(observed.size());
}

Finding CheckActionLimits(const EnvSpec& env, const Demonstrations& data) {
  const Signal& action = data.action();
  std::vector<std::string> found;
  for (std::int64_t d = 0; d < action.dim; ++d) {
    const auto low = static_cast<double>(env.action_low[static_cast<std::size_t>(d)]);
    const auto high = static_cast<double>(env.action_high[static_cast<std::size_t>(d)]);
    const double slack = 1e-3 * (high - low);
    const std::vector<float> column = action.Column(d);
    const auto n_outside = std::ranges::count_if(
        column, [&](float value) { return value < low - slack || value > high + slack; });
    const double share = static_cast<double>(n_outside) / static_cast<double>(column.size());
    if (share <= kMaxOutsideShare) continue;
    found.push_back(
        fmt::format("{:.1f} % of dimension {} outside [{:g}, {:g}]", 100.0 * share, d, low, high));
  }
  return DecideByFaults("data.actions_outside_limits", found, "",
                        "all dimensions are within the env's limits");
}

Finding CheckRate(const EnvSpec& env, double fps) {
  if (fps <= 0.0) return LeaveOpen("data.rate", "the dataset does not give its rate");
  return Decide("data.rate", std::abs(fps / env.control_hz - 1.0) > 0.01,
                fmt::format("{:g} Hz recorded, {:g} Hz in the env", fps, env.control_hz));
}

Finding CheckResetRange(const FirstObservations& first, const Demonstrations& data) {
  constexpr const char* kId = "env.observations_outside_data";
  if (first.numbers.empty()) return LeaveOpen(kId, "env and data share no low-dimensional key");
  std::vector<std::string> found;
  for (const auto& [name, values] : first.numbers) {
    const Signal& signal = *data.Find(name);
    for (std::int64_t d = 0; d < signal.dim; ++d) {
      const double share = ShareOutside(signal, d, values);
      if (share < kMaxResetsOutside) continue;
      found.push_back(fmt::format("'{}'[{}] in {:.0f} % of the starts", name, d, 100.0 * share));
    }
  }
  return DecideByFaults(kId, found, "outside the data's range: ",
                        fmt::format("{} starts lie within the data's ranges", kResets));
}

Finding CheckChannelOrder(const FirstObservations& first, const Dataset& dataset,
                          const ShapeMeta& meta) {
  bool is_swapped = false;
  std::vector<std::string> seen;
  for (const KeySpec& key : meta.obs) {
    if (!first.colours.contains(key.name)) continue;
    const ChannelMeans data = MeansOfData(dataset, key);
    const ChannelMeans simulated = Summarize(first.colours.at(key.name));
    const double as_it_is = Distance(data, simulated, {0, 1, 2});
    const double reversed = Distance(data, simulated, {2, 1, 0});
    seen.push_back(fmt::format("'{}': {:.1f} unchanged, {:.1f} with red and blue swapped", key.name,
                               as_it_is, reversed));
    is_swapped = is_swapped || (as_it_is > 50.0 && reversed < as_it_is / 4.0);
  }
  if (seen.empty()) return LeaveOpen("data.swapped_channels", "there are no colour images");
  return Decide("data.swapped_channels", is_swapped,
                fmt::format("squared distance of the mean colours in standard errors: {}",
                            fmt::join(seen, ", ")));
}

}  // namespace

Findings CheckEnv(Env& env, const Dataset& dataset, const Demonstrations& data,
                  const ShapeMeta& meta) {
  const FirstObservations first = ObserveStarts(env, data, meta);
  return {CheckActionLimits(env.spec(), data), CheckRate(env.spec(), dataset.spec().fps),
          CheckResetRange(first, data), CheckChannelOrder(first, dataset, meta)};
}

}  // namespace dp_bench::diagnose
