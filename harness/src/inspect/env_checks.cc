// See env_checks.h.
#include "inspect/env_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "plugin/obs_memory.h"

namespace dp_bench::inspect {
namespace {

constexpr double kMaxOutsideShare = 0.005;
constexpr double kMaxResetsOutside = 0.5;
constexpr double kMargin = 0.25;  // of the range of the data, on each side
constexpr int kMaxFrames = 64;

// The observation of a state as bytes, in the order of the env's keys.
class ObsReader {
 public:
  explicit ObsReader(const EnvSpec& spec) : memory_(spec) {}

  void Observe(Env& env) { memory_.Observe(env); }

  /// Empty for a key that the env does not have.
  std::span<const std::byte> Find(std::string_view name) const {
    const auto found = std::ranges::find(memory_.keys(), name, &KeySpec::name);
    if (found == memory_.keys().end()) return {};
    return memory_[static_cast<std::size_t>(found - memory_.keys().begin())];
  }

  std::vector<float> Numbers(std::string_view name) const {
    const std::span<const std::byte> bytes = Find(name);
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

 private:
  plugin::ObsMemory memory_;
};

// The mean over several frames of a colour picture's channel means, and its variance.
struct ChannelMeans {
  std::array<double, 3> mean = {};
  std::array<double, 3> variance = {};
};

using FrameMeans = std::vector<std::array<double, 3>>;

std::array<double, 3> MeanColour(const std::uint8_t* pixels, std::size_t n_bytes) {
  std::array<double, 3> sums = {};
  for (std::size_t i = 0; i < n_bytes; ++i) sums[i % 3] += pixels[i];
  for (double& sum : sums) sum /= static_cast<double>(n_bytes) / 3.0;
  return sums;
}

ChannelMeans Summarize(const FrameMeans& frames) {
  ChannelMeans means;
  const auto n = static_cast<double>(frames.size());
  for (std::size_t c = 0; c < 3; ++c) {
    for (const auto& frame : frames) means.mean[c] += frame[c] / n;
    for (const auto& frame : frames) means.variance[c] += std::pow(frame[c] - means.mean[c], 2) / n;
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

ChannelMeans OfData(const Dataset& dataset, const KeySpec& key) {
  FrameMeans frames;
  const int index = dataset.KeyIndex(key.name);
  for (const std::int64_t step : Spread(dataset.episode_ends().back(), kMaxFrames)) {
    const std::vector<std::uint8_t> image = ReadImage(dataset, index, step);
    frames.push_back(MeanColour(image.data(), image.size()));
  }
  return Summarize(frames);
}

ChannelMeans OfEnv(Env& env, const KeySpec& key, const ResetSample& sample) {
  ObsReader reader(env.spec());
  FrameMeans frames;
  for (int i = 0; i < sample.n_resets; ++i) {
    env.Reset(sample.start_seed + static_cast<std::uint64_t>(i));
    reader.Observe(env);
    const std::span<const std::byte> bytes = reader.Find(key.name);
    frames.push_back(MeanColour(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  }
  return Summarize(frames);
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

}  // namespace

Finding CheckActionLimits(const EnvSpec& env, const Demonstrations& data) {
  const Finding hypothesis = {.id = "data.actions_outside_limits",
                              .claim = "recorded actions exceed the env's limits",
                              .advice = "check the units of the actions, or the env's limits",
                              .config_key = "env.params"};
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
  return Decide(hypothesis, !found.empty(),
                found.empty() ? "all dimensions are within the env's limits"
                              : fmt::format("{}", fmt::join(found, ", ")));
}

Finding CheckRate(const EnvSpec& env, double fps) {
  const Finding hypothesis = {.id = "data.rate",
                              .claim = "the data were recorded at another rate than the env runs",
                              .advice = "resample the data, or change the env's control rate",
                              .config_key = "dataset.params.fps"};
  if (fps <= 0.0) return LeaveOpen(hypothesis, "the data set does not give its rate");
  return Decide(hypothesis, std::abs(fps / env.control_hz - 1.0) > 0.01,
                fmt::format("{:g} Hz recorded, {:g} Hz in the env", fps, env.control_hz));
}

Finding CheckResetRange(Env& env, const Demonstrations& data, const ShapeMeta& meta,
                        const ResetSample& sample) {
  const Finding hypothesis = {.id = "env.observations_outside_data",
                              .claim = "the env's observations lie outside the data",
                              .advice =
                                  "check units and order of the key, and whether env and data "
                                  "belong to the same task",
                              .config_key = "env.params",
                              .certainty = Certainty::kLikely};
  ObsReader reader(env.spec());
  std::map<std::string, std::vector<std::vector<float>>> observed;
  for (int i = 0; i < sample.n_resets; ++i) {
    env.Reset(sample.start_seed + static_cast<std::uint64_t>(i));
    reader.Observe(env);
    for (const KeySpec& key : meta.obs) {
      const Signal* signal = data.Find(key.name);
      if (signal == nullptr || reader.Find(key.name).empty()) continue;
      observed[key.name].push_back(reader.Numbers(key.name));
    }
  }
  if (observed.empty()) return LeaveOpen(hypothesis, "env and data share no low-dimensional key");
  std::vector<std::string> found;
  for (const auto& [name, values] : observed) {
    const Signal& signal = *data.Find(name);
    for (std::int64_t d = 0; d < signal.dim; ++d) {
      const double share = ShareOutside(signal, d, values);
      if (share < kMaxResetsOutside) continue;
      found.push_back(fmt::format("'{}'[{}] in {:.0f} % of the starts", name, d, 100.0 * share));
    }
  }
  return Decide(hypothesis, !found.empty(),
                found.empty()
                    ? fmt::format("{} starts lie within the data's ranges", sample.n_resets)
                    : "outside the data's range: " + fmt::format("{}", fmt::join(found, ", ")));
}

Finding CheckChannelOrder(Env& env, const Dataset& dataset, const ShapeMeta& meta,
                          const ResetSample& sample) {
  const Finding hypothesis = {.id = "data.swapped_channels",
                              .claim = "the pictures of the data are BGR, the env's RGB",
                              .advice = "swap the channels of the data",
                              .config_key = "dataset",
                              .certainty = Certainty::kLikely};
  std::vector<std::string> swapped;
  std::vector<std::string> seen;
  for (const KeySpec& key : meta.obs) {
    if (key.type != KeyType::kRgb) continue;
    const ChannelMeans data = OfData(dataset, key);
    const ChannelMeans simulated = OfEnv(env, key, sample);
    const double as_it_is = Distance(data, simulated, {0, 1, 2});
    const double reversed = Distance(data, simulated, {2, 1, 0});
    seen.push_back(fmt::format("'{}': {:.1f} unchanged, {:.1f} with red and blue swapped", key.name,
                               as_it_is, reversed));
    if (as_it_is > 50.0 && reversed < as_it_is / 4.0) swapped.push_back(key.name);
  }
  if (seen.empty()) return LeaveOpen(hypothesis, "there are no colour pictures");
  return Decide(hypothesis, !swapped.empty(),
                fmt::format("squared distance of the mean colours in standard errors: {}",
                            fmt::join(seen, ", ")));
}

Findings CheckEnv(Env& env, const Dataset& dataset, const Demonstrations& data,
                  const ShapeMeta& meta, const ResetSample& sample) {
  return {CheckActionLimits(env.spec(), data), CheckRate(env.spec(), dataset.spec().fps),
          CheckResetRange(env, data, meta, sample), CheckChannelOrder(env, dataset, meta, sample)};
}

}  // namespace dp_bench::inspect
