// See lerobot_normalizer.h.
#include "interop/lerobot_normalizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "core/errors.h"
#include "planner/policy_weights.h"

namespace dp_bench::interop {
namespace {

using Numbers = std::vector<double>;

constexpr std::array kStats = {&KeyStats::min, &KeyStats::max, &KeyStats::mean, &KeyStats::std};

constexpr std::array kNorms = {LerobotNorm::kIdentity, LerobotNorm::kMinMax, LerobotNorm::kMeanStd};

// Below this share of its value, a deviation or range is rounding.
constexpr double kRounding = 1e-7;

// y = x * scale + offset.
struct Affine {
  double scale = 1.0;
  double offset = 0.0;
};

bool HasRange(double range, double value) {
  return range > kRounding * std::max(1.0, std::abs(value));
}

Affine OfMeanStd(double mean, double std, double eps, bool is_action) {
  if (is_action) {  // used backwards: x = y * std + mean
    const double scale = 1.0 / (std > 0.0 ? std : eps);
    return {scale, -mean * scale};
  }
  if (!HasRange(std, mean)) return {1.0, -mean};
  const double scale = 1.0 / (std + eps);
  return {scale, -mean * scale};
}

Affine OfMinMax(double min, double max, double eps, bool is_action) {
  if (!is_action && !HasRange(max - min, min)) return {1.0, -1.0 - min};
  const double scale = 2.0 / (max > min ? max - min : eps);
  return {scale, -1.0 - min * scale};
}

// LeRobot's formulas for n channels; `stats` must have what `norm` needs.
std::vector<Affine> AffinesOf(const KeyStats& stats, LerobotNorm norm, double eps, bool is_action,
                              std::size_t n) {
  std::vector<Affine> result(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (norm == LerobotNorm::kMeanStd) {
      result[i] = OfMeanStd(stats.mean[i], stats.std[i], eps, is_action);
    } else if (norm == LerobotNorm::kMinMax) {
      result[i] = OfMinMax(stats.min[i], stats.max[i], eps, is_action);
    }
  }
  return result;
}

NormalizeMode ModeOf(LerobotNorm norm, bool is_image) {
  // any affine map per channel, whatever its statistics
  if (is_image) return NormalizeMode::kImageGaussian;
  switch (norm) {
    case LerobotNorm::kIdentity:
      return NormalizeMode::kIdentity;
    case LerobotNorm::kMeanStd:
      return NormalizeMode::kGaussian;
    case LerobotNorm::kMinMax:
      return NormalizeMode::kLimits;
  }
  return NormalizeMode::kIdentity;
}

// Dimensions begin to end of what is known.
KeyStats Slice(const KeyStats& stats, std::size_t begin, std::size_t end) {
  KeyStats part;
  for (const auto member : kStats) {
    const Numbers& all = stats.*member;
    if (all.size() < end) continue;
    (part.*member)
        .assign(all.begin() + static_cast<std::ptrdiff_t>(begin),
                all.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return part;
}

Normalizer::Field MakeField(const std::vector<Affine>& affines, NormalizeMode mode,
                            KeyStats stats) {
  Numbers scale;
  Numbers offset;
  for (const Affine& affine : affines) {
    scale.push_back(affine.scale);
    offset.push_back(affine.offset);
  }
  return {.scale = torch::tensor(scale, torch::kFloat64).to(torch::kFloat32),
          .offset = torch::tensor(offset, torch::kFloat64).to(torch::kFloat32),
          .stats = std::move(stats),
          .mode = mode};
}

void Append(const Numbers& part, Numbers* all) {
  all->insert(all->end(), part.begin(), part.end());
}

const Normalizer::Field& FieldOf(const Normalizer& normalizer, const std::string& key) {
  const auto found = normalizer.fields().find(key);
  if (found != normalizer.fields().end()) return found->second;
  throw CheckpointError("the normalizer has no statistics of '{}'; the checkpoint is damaged", key);
}

// A feature and the fields of its keys.
struct NormalizedFeature {
  const LerobotFeature* feature;
  std::vector<const Normalizer::Field*> fields;
};

std::size_t NumChannels(const NormalizedFeature& source) {
  return static_cast<std::size_t>(source.feature->shape.front());
}

// Clears what is known for some of the channels only: LeRobot wants a number for each, or none.
void LeaveOutPartial(std::size_t n_channels, KeyStats* stats) {
  for (const auto member : kStats) {
    if ((stats->*member).size() != n_channels) (stats->*member).clear();
  }
}

// The statistics that a normalizer was made from.
KeyStats RecordedStats(const NormalizedFeature& source) {
  KeyStats all;
  for (const Normalizer::Field* field : source.fields) {
    for (const auto member : kStats) Append(field->stats.*member, &(all.*member));
  }
  LeaveOutPartial(NumChannels(source), &all);
  return all;
}

// Whether LeRobot's formulas make the same scale and offset from the recorded statistics.
bool Reproduces(const NormalizedFeature& source, LerobotNorm norm, double eps) {
  const KeyStats stats = RecordedStats(source);
  const std::size_t n = NumChannels(source);
  const auto has = [n](const Numbers& numbers) { return numbers.size() == n; };
  if (norm == LerobotNorm::kMinMax && !(has(stats.min) && has(stats.max))) return false;
  if (norm == LerobotNorm::kMeanStd && !(has(stats.mean) && has(stats.std))) return false;
  const bool is_action = source.feature->type == LerobotFeatureType::kAction;
  Numbers scale;
  Numbers offset;
  for (const Normalizer::Field* field : source.fields) {
    Append(planner::ToNumbers(field->scale), &scale);
    Append(planner::ToNumbers(field->offset), &offset);
  }
  if (!has(scale)) return false;  // one for all channels
  const std::vector<Affine> affines = AffinesOf(stats, norm, eps, is_action, n);
  for (std::size_t i = 0; i < n; ++i) {
    if (static_cast<float>(affines[i].scale) != static_cast<float>(scale[i])) return false;
    if (static_cast<float>(affines[i].offset) != static_cast<float>(offset[i])) return false;
  }
  return true;
}

// What LeRobot needs to do the same with all keys of one feature type, whatever they were made
// from.
LerobotNorm DerivedNorm(LerobotFeatureType type, const std::vector<NormalizedFeature>& sources) {
  const auto is_gaussian = [](const NormalizedFeature& source) {
    return std::ranges::all_of(source.fields, [](const Normalizer::Field* field) {
      return field->mode == NormalizeMode::kGaussian;
    });
  };
  const bool is_mean_std =
      type == LerobotFeatureType::kVisual || std::ranges::all_of(sources, is_gaussian);
  return is_mean_std ? LerobotNorm::kMeanStd : LerobotNorm::kMinMax;
}

// The statistics with which LeRobot's formula is y = x * scale + offset.
KeyStats StatsOf(const std::vector<const Normalizer::Field*>& fields, LerobotNorm norm,
                 std::int64_t n_channels) {
  KeyStats stats;
  for (const Normalizer::Field* field : fields) {
    Numbers scale = planner::ToNumbers(field->scale);
    Numbers offset = planner::ToNumbers(field->offset);
    const bool is_for_all_channels = fields.size() == 1 && scale.size() == 1;
    if (norm == LerobotNorm::kMeanStd && is_for_all_channels) {
      scale.assign(static_cast<std::size_t>(n_channels), scale[0]);
      offset.assign(static_cast<std::size_t>(n_channels), offset[0]);
    }
    for (std::size_t i = 0; i < scale.size(); ++i) {
      if (norm == LerobotNorm::kMeanStd) {
        stats.mean.push_back(-offset[i] / scale[i]);
        stats.std.push_back(1.0 / scale[i]);
      } else {
        stats.min.push_back((-1.0 - offset[i]) / scale[i]);
        stats.max.push_back((1.0 - offset[i]) / scale[i]);
      }
    }
    // not needed, but a LeRobot dataset has them
    if (norm != LerobotNorm::kMeanStd) {
      Append(field->stats.mean, &stats.mean);
      Append(field->stats.std, &stats.std);
    }
  }
  LeaveOutPartial(static_cast<std::size_t>(n_channels), &stats);
  return stats;
}

}  // namespace

Normalizer FromLerobotStats(const LerobotPolicy& policy,
                            const std::vector<FeatureBinding>& bindings,
                            const ShapeMeta& shape_meta) {
  Normalizer::Fields fields;
  const auto add = [&](const LerobotFeature& feature, const std::vector<std::string>& keys) {
    const LerobotNorm norm = policy.config.NormOf(feature.type);
    const std::vector<Affine> affines = AffinesOf(policy.stats.at(feature.name), norm, policy.eps,
                                                  feature.type == LerobotFeatureType::kAction,
                                                  static_cast<std::size_t>(feature.shape.front()));
    const bool is_image = feature.type == LerobotFeatureType::kVisual;
    const NormalizeMode mode = ModeOf(norm, is_image);
    std::size_t begin = 0;
    for (const std::string& key : keys) {
      const auto spec = std::ranges::find(shape_meta.obs, key, &KeySpec::name);
      const KeySpec& found = spec == shape_meta.obs.end() ? shape_meta.action : *spec;
      const auto size = static_cast<std::size_t>(is_image ? found.shape[0] : found.NumElements());
      const std::vector<Affine> part(affines.begin() + static_cast<std::ptrdiff_t>(begin),
                                     affines.begin() + static_cast<std::ptrdiff_t>(begin + size));
      fields[key] =
          MakeField(part, mode, Slice(policy.stats.at(feature.name), begin, begin + size));
      begin += size;
    }
  };
  for (const FeatureBinding& binding : bindings) add(binding.feature, binding.keys);
  add(policy.config.action, {shape_meta.action.name});
  return Normalizer(std::move(fields));
}

void ToLerobotStats(const Normalizer& normalizer, const std::vector<FeatureBinding>& bindings,
                    LerobotPolicy* policy) {
  std::map<LerobotFeatureType, std::vector<NormalizedFeature>>
      by_type;  // LeRobot has one norm for each
  const auto add = [&](const LerobotFeature& feature, const std::vector<std::string>& keys) {
    NormalizedFeature source{.feature = &feature, .fields = {}};
    for (const std::string& key : keys) source.fields.push_back(&FieldOf(normalizer, key));
    by_type[feature.type].push_back(std::move(source));
  };
  for (const FeatureBinding& binding : bindings) add(binding.feature, binding.keys);
  add(policy->config.action, {policy->config.action.name});

  for (const auto& entry : by_type) {
    const LerobotFeatureType type = entry.first;
    const std::vector<NormalizedFeature>& sources = entry.second;
    const auto recorded = std::ranges::find_if(kNorms, [&](LerobotNorm norm) {
      return std::ranges::all_of(sources, [&](const NormalizedFeature& source) {
        return Reproduces(source, norm, policy->eps);
      });
    });
    const bool is_recorded = recorded != kNorms.end();
    const LerobotNorm norm = is_recorded ? *recorded : DerivedNorm(type, sources);
    policy->config.normalization_mapping[type] = norm;
    for (const NormalizedFeature& source : sources) {
      policy->stats[source.feature->name] =
          is_recorded ? RecordedStats(source)
                      : StatsOf(source.fields, norm, source.feature->shape.front());
    }
  }
}

}  // namespace dp_bench::interop
