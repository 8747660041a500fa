// See demonstrations.h.
#include "diagnose/demonstrations.h"

#include <algorithm>
#include <cstring>

#include "dp_bench/error.h"

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

}  // namespace dp_bench::diagnose
