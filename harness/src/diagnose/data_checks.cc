#include "diagnose/data_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "core/list_some.h"
#include "core/sha256.h"
#include "dp_bench/error.h"
#include "plugin/obs_memory.h"

namespace dp_bench::diagnose {
namespace {

Signal ReadSignal(const Dataset& dataset, int index) {
  const KeySpec& key = dataset.spec().keys[static_cast<std::size_t>(index)];
  const std::int64_t n_steps = dataset.episode_ends().empty() ? 0 : dataset.episode_ends().back();
  Signal signal = {.name = key.name, .dim = key.NumElements(), .values = {}};
  const auto count = static_cast<std::size_t>(n_steps * signal.dim);
  signal.values.resize(count);
  if (key.dtype == DType::kFloat32) {
    dataset.Read(index, 0, n_steps, std::as_writable_bytes(std::span(signal.values)));
    return signal;
  }
  DPB_ASSERT(key.dtype == DType::kFloat64);
  std::vector<double> wide(count);
  dataset.Read(index, 0, n_steps, std::as_writable_bytes(std::span(wide)));
  std::ranges::transform(wide, signal.values.begin(),
                         [](double value) { return static_cast<float>(value); });
  return signal;
}

bool IsNumbers(const KeySpec& key) {
  return key.type == KeyType::kLowDim &&
         (key.dtype == DType::kFloat32 || key.dtype == DType::kFloat64);
}

constexpr double kMaxIdleShare = 0.3;
constexpr double kMaxShortShare = 0.1;
constexpr double kMaxRangeRatio = 20.0;  // full range over the range of 99.8 % of the values
constexpr double kMaxJumpiness = 0.7;    // independent values have 1
constexpr double kMaxRangeError = 1e-4;  // of a stated range
constexpr int kFrames = 64;              // of a camera

std::string Place(const Demonstrations& data, std::int64_t step) {
  const std::int64_t episode = data.EpisodeOf(step);
  return fmt::format("episode {}, step {}", episode, step - data.EpisodeBegin(episode));
}

double Range(const Signal& signal, std::int64_t d) {
  const std::vector<float> column = signal.Column(d);
  if (column.empty()) return 0.0;
  const auto [low, high] = std::ranges::minmax(column);
  return static_cast<double>(high) - static_cast<double>(low);
}

bool RowsEqual(const Signal& signal, std::int64_t a, std::int64_t b) {
  const float* values = signal.values.data();
  return std::memcmp(values + a * signal.dim, values + b * signal.dim,
                     static_cast<std::size_t>(signal.dim) * sizeof(float)) == 0;
}

// Compares the range of a number with the one that the files state, and names the step of an
// extreme value that differs.
std::optional<std::string> RangeFault(const Demonstrations& data, const Signal& signal,
                                      std::int64_t d, double min, double max) {
  const std::vector<float> column = signal.Column(d);
  const auto [lowest, highest] = std::ranges::minmax_element(column);
  const auto differs = [&](double found, double stated) {
    const double rounding = 1e-6 * std::max(std::abs(found), std::abs(stated));
    return !(std::abs(found - stated) <= kMaxRangeError * (max - min) + rounding);
  };
  if (!differs(*lowest, min) && !differs(*highest, max)) return std::nullopt;
  const auto step = (differs(*lowest, min) ? lowest : highest) - column.begin();
  return fmt::format("{}[{}] is {:.6g} to {:.6g} in the data, {:.6g} to {:.6g} in the files ({})",
                     signal.name, d, *lowest, *highest, min, max, Place(data, step));
}

std::string HashOf(const Demonstrations& data, std::int64_t episode) {
  const std::int64_t begin = data.EpisodeBegin(episode);
  const std::int64_t count = data.EpisodeEnd(episode) - begin;
  core::Sha256 hash;
  for (const Signal& signal : data.signals) {
    hash.Update(std::as_bytes(std::span(signal.values)
                                  .subspan(static_cast<std::size_t>(begin * signal.dim),
                                           static_cast<std::size_t>(count * signal.dim))));
  }
  return hash.HexDigest();
}

using EpisodeGroups = std::vector<std::vector<std::int64_t>>;

// Groups of episodes that are equal byte for byte.
EpisodeGroups EqualEpisodes(const Demonstrations& data) {
  std::map<std::string, std::vector<std::int64_t>> by_hash;
  for (std::int64_t i = 0; i < data.n_episodes(); ++i) by_hash[HashOf(data, i)].push_back(i);
  EpisodeGroups groups;
  for (auto& [hash, episodes] : by_hash) {
    if (episodes.size() > 1) groups.push_back(std::move(episodes));
  }
  std::ranges::sort(groups);
  return groups;
}

// Median |a[t + 1] - a[t]| within episodes divided by the median between distant steps.
std::optional<double> Jumpiness(const Demonstrations& data, std::int64_t d) {
  const Signal& action = data.action();
  std::vector<float> neighbours;
  std::vector<float> strangers;
  const std::int64_t n = action.n_steps();
  for (std::int64_t step = 0; step + 1 < n; ++step) {
    if (data.EpisodeOf(step) != data.EpisodeOf(step + 1)) continue;
    neighbours.push_back(std::abs(action.at(step + 1, d) - action.at(step, d)));
    strangers.push_back(std::abs(action.at((step * 7919 + n / 3) % n, d) - action.at(step, d)));
  }
  if (strangers.empty()) return std::nullopt;
  const double far = Quantile(strangers, 0.5);
  if (far <= 1e-9) return std::nullopt;
  return Quantile(neighbours, 0.5) / far;
}

// Whether all frames are equal byte for byte.
bool IsStill(const Dataset& dataset, int key) {
  const std::int64_t n_steps = dataset.episode_ends().back();
  const std::vector<std::uint8_t> first = ReadImage(dataset, key, 0);
  return std::ranges::all_of(Spread(n_steps, kFrames), [&](std::int64_t step) {
    return ReadImage(dataset, key, step) == first;
  });
}

Finding CheckFinite(const Demonstrations& data) {
  std::vector<std::string> places;
  std::size_t n_values = 0;
  for (const Signal& signal : data.signals) {
    n_values += signal.values.size();
    const auto bad = std::ranges::find_if(signal.values, [](float x) { return !std::isfinite(x); });
    if (bad == signal.values.end()) continue;
    const std::int64_t step = (bad - signal.values.begin()) / signal.dim;
    places.push_back(fmt::format("'{}' at {}", signal.name, Place(data, step)));
  }
  return DecideByFaults("data.not_finite", places,
                        "first of each key: ", fmt::format("{} values are finite", n_values));
}

// If only some dimensions never change, a note.
Finding CheckActionsChange(const Demonstrations& data) {
  const std::int64_t dim = data.action().dim;
  std::vector<std::string> constant;
  for (std::int64_t d = 0; d < dim; ++d) {
    if (Range(data.action(), d) < 1e-6) constant.push_back(std::to_string(d));
  }
  Finding finding =
      DecideByFaults("data.constant_action", constant,
                     fmt::format("dimensions without range: {} of {}: ", constant.size(), dim),
                     fmt::format("all {} dimensions have a range", dim));
  if (std::ssize(constant) < dim) finding.severity = Severity::kNote;
  return finding;
}

// Steps that repeat the previous one, observation and action.
Finding CheckIdleSteps(const Demonstrations& data) {
  std::int64_t n_idle = 0;
  std::int64_t n_pairs = 0;
  for (std::int64_t step = 0; step + 1 < data.n_steps(); ++step) {
    if (data.EpisodeOf(step) != data.EpisodeOf(step + 1)) continue;
    ++n_pairs;
    n_idle += std::ranges::all_of(
        data.signals, [&](const Signal& signal) { return RowsEqual(signal, step, step + 1); });
  }
  const double share = n_pairs > 0 ? static_cast<double>(n_idle) / static_cast<double>(n_pairs) : 0;
  return Decide("data.idle_steps", share > kMaxIdleShare,
                "{:.1f} % of the steps equal the one before", 100.0 * share);
}

// Episodes shorter than one sequence, which is then mostly padding.
Finding CheckEpisodeLengths(const Demonstrations& data, const Horizons& horizons) {
  std::vector<std::string> too_short;
  for (std::int64_t i = 0; i < data.n_episodes(); ++i) {
    const std::int64_t length = data.EpisodeEnd(i) - data.EpisodeBegin(i);
    if (length < horizons.horizon) too_short.push_back(fmt::format("{} ({} steps)", i, length));
  }
  const double share =
      static_cast<double>(too_short.size()) / static_cast<double>(data.n_episodes());
  std::string evidence = fmt::format("{} of {} episodes have fewer than {} steps", too_short.size(),
                                     data.n_episodes(), horizons.horizon);
  if (!too_short.empty()) evidence += ": " + core::ListSome(too_short, kMaxListed);
  return Decide("data.short_episodes", share > kMaxShortShare, evidence);
}

Finding CheckDuplicates(const Demonstrations& data, const EpisodeGroups& equal) {
  std::vector<std::string> groups;
  for (const auto& group : equal) groups.push_back(fmt::format("{}", fmt::join(group, " = ")));
  return DecideByFaults("data.duplicate_episodes", groups, "equal in every value: ",
                        fmt::format("{} different episodes", data.n_episodes()));
}

// Episodes in both training and validation.
Finding CheckLeakage(const EpisodeGroups& equal, const data::Split& split) {
  const auto n_val = std::ranges::count(split.val, true);
  if (n_val == 0) return LeaveOpen("data.leakage", "there is no validation set");
  std::vector<std::string> leaks;
  for (const auto& group : equal) {
    const auto is_in = [&](const std::vector<bool>& mask) {
      return std::ranges::any_of(
          group, [&](std::int64_t i) { return bool(mask[static_cast<std::size_t>(i)]); });
    };
    if (is_in(split.train) && is_in(split.val)) {
      leaks.push_back(fmt::format("{}", fmt::join(group, " = ")));
    }
  }
  return DecideByFaults(
      "data.leakage", leaks,
      "in both: ", fmt::format("{} validation episodes, none of them in the training data", n_val));
}

// Single values so far from the others that they alone determine the range.
Finding CheckOutliers(const Demonstrations& data) {
  std::vector<std::string> found;
  for (const Signal& signal : data.signals) {
    for (std::int64_t d = 0; d < signal.dim; ++d) {
      const std::vector<float> column = signal.Column(d);
      const double inner = static_cast<double>(Quantile(column, 0.999)) -
                           static_cast<double>(Quantile(column, 0.001));
      const double ratio = Range(signal, d) / inner;
      if (inner <= 1e-6 || ratio < kMaxRangeRatio) continue;
      const float middle = Quantile(column, 0.5);
      const auto far = std::ranges::max_element(
          column, {}, [&](float value) { return std::abs(value - middle); });
      found.push_back(fmt::format("'{}'[{}] is {:.4g} at {}, {:.0f} times beyond the rest",
                                  signal.name, d, *far, Place(data, far - column.begin()), ratio));
    }
  }
  return DecideByFaults("data.outliers", found, "",
                        "no range is much wider than that of 99.8 % of its values");
}

// Actions of neighbouring steps that differ as much as those of distant steps.
Finding CheckActionOrder(const Demonstrations& data) {
  std::vector<float> ratios;
  for (std::int64_t d = 0; d < data.action().dim; ++d) {
    if (const auto ratio = Jumpiness(data, d)) ratios.push_back(static_cast<float>(*ratio));
  }
  if (ratios.empty())
    return LeaveOpen("data.shuffled_actions", "no action dimension changes enough for a verdict");
  const float median = Quantile(ratios, 0.5);
  return Decide(
      "data.shuffled_actions", median > kMaxJumpiness,
      "neighbouring actions differ {:.2f} times as much as distant ones (independent ones: 1)",
      median);
}

// Where episodes start in evaluation.
constexpr std::uint64_t kFirstSeed = 100000;
constexpr int kResets = 16;

constexpr double kMaxOutsideShare = 0.005;
constexpr double kMaxResetsOutside = 0.5;
// n random episodes leave a share of 2 / (n + 1) of other starts outside their range
constexpr int kMinSampledEpisodes = 10;
constexpr double kMargin = 0.25;  // of the range of the data, on each side

// The first observations of the env's episodes, by the keys that the data have too.
using FirstObservations = std::map<std::string, std::vector<std::vector<float>>>;

FirstObservations ObserveStarts(Env& env, const Demonstrations& data, const ShapeMeta& meta) {
  plugin::ObsMemory memory(env.spec());
  FirstObservations first;
  for (int i = 0; i < kResets; ++i) {
    env.Reset(kFirstSeed + static_cast<std::uint64_t>(i));
    memory.Observe(env);
    for (const KeySpec& key : meta.obs) {
      const auto found = std::ranges::find(memory.keys(), key.name, &KeySpec::name);
      if (found == memory.keys().end() || data.Find(key.name) == nullptr) continue;
      const auto bytes = memory[static_cast<std::size_t>(found - memory.keys().begin())];
      std::vector<float>& numbers = first[key.name].emplace_back(bytes.size() / sizeof(float));
      std::memcpy(numbers.data(), bytes.data(), bytes.size());
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
                "{:g} Hz recorded, {:g} Hz in the env", fps, env.control_hz);
}

Finding CheckResetRange(const FirstObservations& first, const Demonstrations& data) {
  constexpr const char* kId = "env.observations_outside_data";
  if (first.empty()) return LeaveOpen(kId, "env and data share no low-dimensional key");
  std::vector<std::string> found;
  for (const auto& [name, values] : first) {
    const Signal& signal = *data.Find(name);
    for (std::int64_t d = 0; d < signal.dim; ++d) {
      const double share = ShareOutside(signal, d, values);
      if (share < kMaxResetsOutside) continue;
      found.push_back(fmt::format("'{}'[{}] in {:.0f} % of the starts", name, d, 100.0 * share));
    }
  }
  if (!found.empty() && data.is_sample && data.n_episodes() < kMinSampledEpisodes) {
    return LeaveOpen(kId,
                     fmt::format("starts lie outside the range of {} sampled episodes; it takes {} "
                                 "(collect.n_episodes={}) to decide",
                                 data.n_episodes(), kMinSampledEpisodes, kMinSampledEpisodes));
  }
  return DecideByFaults(kId, found, "outside the data's range: ",
                        fmt::format("{} starts lie within the data's ranges", kResets));
}

}  // namespace

std::vector<float> Signal::Column(std::int64_t d) const {
  std::vector<float> column(static_cast<std::size_t>(n_steps()));
  for (std::int64_t step = 0; step < n_steps(); ++step) {
    column[static_cast<std::size_t>(step)] = at(step, d);
  }
  return column;
}

std::int64_t Demonstrations::EpisodeOf(std::int64_t step) const {
  return std::ranges::upper_bound(episode_ends, step) - episode_ends.begin();
}

const Signal* Demonstrations::Find(std::string_view name) const {
  const auto found = std::ranges::find(signals, name, &Signal::name);
  return found == signals.end() ? nullptr : &*found;
}

const Signal& Demonstrations::action() const {
  const Signal* action = Find("action");
  DPB_ASSERT(action != nullptr);
  return *action;
}

Demonstrations ReadDemonstrations(const Dataset& dataset, const std::vector<std::string>& names) {
  const auto ends = dataset.episode_ends();
  Demonstrations data = {.signals = {}, .episode_ends = {ends.begin(), ends.end()}};
  const std::vector<KeySpec>& keys = dataset.spec().keys;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool is_wanted = std::ranges::find(names, keys[i].name) != names.end();
    if (is_wanted && IsNumbers(keys[i])) {
      data.signals.push_back(ReadSignal(dataset, static_cast<int>(i)));
    }
  }
  return data;
}

std::vector<std::uint8_t> ReadImage(const Dataset& dataset, int key, std::int64_t step) {
  std::vector<std::uint8_t> bytes(dataset.spec().keys[static_cast<std::size_t>(key)].ByteSize());
  dataset.Read(key, step, step + 1, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::vector<std::int64_t> Spread(std::int64_t n, std::int64_t count) {
  const std::int64_t size = std::min(n, count);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) numbers[static_cast<std::size_t>(i)] = i * n / size;
  return numbers;
}

float Quantile(std::vector<float> values, double q) {
  DPB_ASSERT(!values.empty());
  const auto place = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + place);
  return values[static_cast<std::size_t>(place)];
}

Findings CheckData(const Demonstrations& data, const Horizons& horizons, const data::Split* split) {
  Findings findings = {CheckFinite(data)};
  if (findings.front().is_problem()) return findings;  // no other check would mean anything
  const EpisodeGroups equal = EqualEpisodes(data);
  findings.insert(findings.end(),
                  {CheckActionsChange(data), CheckIdleSteps(data),
                   CheckEpisodeLengths(data, horizons), CheckDuplicates(data, equal)});
  if (split != nullptr) findings.push_back(CheckLeakage(equal, *split));
  findings.insert(findings.end(), {CheckOutliers(data), CheckActionOrder(data)});
  return findings;
}

Finding CheckRecordedRanges(const Dataset& dataset, const Demonstrations& data) {
  std::vector<std::string> wrong;
  int n_compared = 0;
  for (const Signal& signal : data.signals) {
    const auto stated = dataset.RecordedRange(dataset.KeyIndex(signal.name));
    if (!stated) continue;
    for (std::int64_t d = 0; d < signal.dim; ++d, ++n_compared) {
      const auto i = static_cast<std::size_t>(d);
      if (const auto text = RangeFault(data, signal, d, stated->min[i], stated->max[i])) {
        wrong.push_back(*text);
      }
    }
  }
  if (n_compared == 0) return LeaveOpen("data.foreign_statistics", "the format has no statistics");
  return DecideByFaults("data.foreign_statistics", wrong, "",
                        fmt::format("the ranges of {} numbers are right", n_compared));
}

Finding CheckImages(const Dataset& dataset, const ShapeMeta& meta) {
  std::vector<std::string> still;
  std::vector<std::string> moving;
  for (const KeySpec& key : meta.obs) {
    if (!key.is_image()) continue;
    auto& list = IsStill(dataset, dataset.KeyIndex(key.name)) ? still : moving;
    list.push_back(key.name);
  }
  if (still.empty() && moving.empty()) {
    return LeaveOpen("data.still_camera", "there are no images");
  }
  return DecideByFaults("data.still_camera", still, fmt::format("{} frames are equal: ", kFrames),
                        "they change: " + core::ListSome(moving, kMaxListed));
}

Findings CheckEnv(Env& env, double fps, const Demonstrations& data, const ShapeMeta& meta) {
  return {CheckActionLimits(env.spec(), data), CheckRate(env.spec(), fps),
          CheckResetRange(ObserveStarts(env, data, meta), data)};
}

}  // namespace dp_bench::diagnose
