// The demonstrations in memory, and their faults that the numbers alone, or the env in which the
// policy will act, reveal. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/split.h"
#include "diagnose/finding.h"
#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"

namespace dp_bench::diagnose {

/// One low-dimensional key: n_steps rows of `dim` numbers.
struct Signal {
  std::string name;
  std::int64_t dim = 0;
  std::vector<float> values;

  float at(std::int64_t step, std::int64_t d) const {
    return values[static_cast<std::size_t>(step * dim + d)];
  }
  std::int64_t n_steps() const { return std::ssize(values) / dim; }

  /// All steps of one dimension.
  std::vector<float> Column(std::int64_t d) const;
};

struct Demonstrations {
  std::vector<Signal> signals;             // alphabetical
  std::vector<std::int64_t> episode_ends;  // as Dataset::episode_ends()
  bool is_sample = false;                  // a few of the episodes that a checkpoint learned from

  std::int64_t n_episodes() const { return std::ssize(episode_ends); }
  std::int64_t n_steps() const { return episode_ends.empty() ? 0 : episode_ends.back(); }
  std::int64_t EpisodeBegin(std::int64_t episode) const {
    return episode == 0 ? 0 : episode_ends[static_cast<std::size_t>(episode - 1)];
  }
  std::int64_t EpisodeEnd(std::int64_t episode) const {
    return episode_ends[static_cast<std::size_t>(episode)];
  }
  std::int64_t EpisodeOf(std::int64_t step) const;

  /// Null if there is none.
  const Signal* Find(std::string_view name) const;
  const Signal& action() const;
};

/// Reads all low_dim keys listed in `names`; float64 becomes float32.
Demonstrations ReadDemonstrations(const Dataset& dataset, const std::vector<std::string>& names);

/// The bytes of one step of an image key.
std::vector<std::uint8_t> ReadImage(const Dataset& dataset, int key, std::int64_t step);

/// `count` of the numbers 0 .. n - 1, evenly spread; all of them if n <= count.
std::vector<std::int64_t> Spread(std::int64_t n, std::int64_t count);

/// The value below which a share `q` of `values` lies; `values` must not be empty.
float Quantile(std::vector<float> values, double q);

/// The checks that need only low-dimensional keys: NaN or Inf; actions that never change or are out
/// of order; idle steps, short and duplicate episodes, outliers. With a
/// `split` also validation episodes in the training data. NaN or Inf alone, if there are any.
Findings CheckData(const Demonstrations& data, const Horizons& horizons,
                   const data::Split* split = nullptr);

/// Values outside of the range that the files state, or a range that they do not fill: statistics
/// of other data. Open if the format has none.
Finding CheckRecordedRanges(const Dataset& dataset, const Demonstrations& data);

/// Cameras whose images never change, from 64 of them.
Finding CheckImages(const Dataset& dataset, const ShapeMeta& meta);

/// Recorded actions beyond the env's limits, where the env clips them; another rate than the env's;
/// first observations of 16 test episodes far outside the data's range (other units, other order,
/// another task), which fewer than 10 episodes of a sample leave open. `fps`: of the data; 0 if
/// they do not say it.
Findings CheckEnv(Env& env, double fps, const Demonstrations& data, const ShapeMeta& meta);

}  // namespace dp_bench::diagnose
