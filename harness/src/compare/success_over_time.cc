#include "compare/success_over_time.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <map>

#include "compare/graded_score.h"
#include "core/errors.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

// Of intervals of 95 %.
double NormalQuantile() {
  return boost::math::quantile(boost::math::normal(), 0.5 + 0.5 * kConfidence);
}

// A step in which episodes succeeded, of those still observed there.
struct EventStep {
  int step, n_at_risk, n_success;
  double survival;  // S after it
};

std::vector<EventStep> EventSteps(std::span<const ObservedTime> times) {
  std::map<int, std::pair<int, int>> ends;  // by step: successes, all
  for (const ObservedTime& time : times) {
    auto& [n_success, n] = ends[time.step];
    n_success += time.is_success ? 1 : 0;
    ++n;
  }
  std::vector<EventStep> events;
  int n_at_risk = static_cast<int>(times.size());
  double survival = 1.0;
  for (const auto& [step, end] : ends) {
    if (end.first > 0) {
      survival *= 1.0 - static_cast<double>(end.first) / n_at_risk;
      events.push_back({step, n_at_risk, end.first, survival});
    }
    n_at_risk -= end.second;
  }
  return events;
}

// Greenwood's term; the last episode at risk adds none, as S is 0 then.
double GreenwoodTerm(const EventStep& event) {
  const int n_left = event.n_at_risk - event.n_success;
  return n_left == 0 ? 0.0
                     : static_cast<double>(event.n_success) /
                           (static_cast<double>(event.n_at_risk) * n_left);
}

std::optional<SuccessDefinitions> DefinitionsOf(std::span<const run::EpisodeRecord> records,
                                                std::string_view split) {
  int n = 0;
  int n_success = 0;
  int n_at_end = 0;
  int n_held = 0;
  bool end_with_success = true;
  for (const run::EpisodeRecord& record : records) {
    if (record.split != split) continue;
    ++n;
    if (!record.success) continue;
    const run::SuccessSteps& steps = record.success_steps;
    if (steps.first == 0) return std::nullopt;
    ++n_success;
    n_at_end += steps.at_end > 0 ? 1 : 0;
    n_held += steps.longest >= kHeldSteps ? 1 : 0;
    end_with_success = end_with_success && steps.first == record.n_steps;
  }
  if (end_with_success) return std::nullopt;
  return SuccessDefinitions{.at_any_time = WilsonInterval(n_success, n),
                            .at_end = WilsonInterval(n_at_end, n),
                            .held = WilsonInterval(n_held, n)};
}

}  // namespace

std::vector<SuccessByStep> KaplanMeier(std::span<const ObservedTime> times) {
  const double z = NormalQuantile();
  std::vector<SuccessByStep> curve;
  double variance = 0.0;  // of ln S
  for (const EventStep& event : EventSteps(times)) {
    variance += GreenwoodTerm(event);
    SuccessByStep point = {
        .step = event.step, .share = 1.0 - event.survival, .low = 0.0, .high = 1.0};
    if (event.survival > 0.0) {
      const double log_survival = std::log(event.survival);
      const double spread = std::exp(z * std::sqrt(variance) / -log_survival);
      point.low = 1.0 - std::pow(event.survival, 1.0 / spread);
      point.high = 1.0 - std::pow(event.survival, spread);
    }
    // after the last episode nothing shows a spread, but the share only grows
    if (event.survival == 0.0 && !curve.empty()) point.low = curve.back().low;
    curve.push_back(point);
  }
  return curve;
}

MeanInterval RestrictedMeanTime(std::span<const ObservedTime> times, int horizon) {
  DPB_ASSERT(!times.empty());
  std::vector<EventStep> events = EventSteps(times);
  std::erase_if(events, [horizon](const EventStep& event) { return event.step >= horizon; });
  // from the last event backwards, `area` is that below S after each event
  double area = 0.0;
  double variance = 0.0;
  int until = horizon;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    area += event->survival * (until - event->step);
    variance += area * area * GreenwoodTerm(*event);
    until = event->step;
  }
  area += until;
  // one episode shows no spread
  const double half =
      times.size() > 1 ? NormalQuantile() * std::sqrt(variance) : static_cast<double>(horizon);
  return {.n = static_cast<int>(times.size()),
          .mean = area,
          .std_dev = std::sqrt(variance * static_cast<double>(times.size())),
          .low = std::max(0.0, area - half),
          .high = std::min<double>(horizon, area + half)};
}

Throughput SuccessesPerStep(std::span<const run::EpisodeRecord> records, std::string_view split) {
  double n_success = 0.0;
  double n_steps = 0.0;
  for (const run::EpisodeRecord& record : records) {
    if (record.split != split) continue;
    n_success += record.success ? 1.0 : 0.0;
    n_steps += record.n_steps;
  }
  if (n_steps == 0.0) return {};
  Throughput found = {.per_step = n_success / n_steps};
  std::vector<double> residuals;  // their mean is 0
  for (const run::EpisodeRecord& record : records) {
    if (record.split != split) continue;
    residuals.push_back((record.success ? 1.0 : 0.0) - found.per_step * record.n_steps);
  }
  const MeanInterval interval = StudentInterval(residuals);
  const double mean_steps = n_steps / static_cast<double>(residuals.size());
  found.low = std::max(0.0, found.per_step + (interval.low - interval.mean) / mean_steps);
  found.high = found.per_step + (interval.high - interval.mean) / mean_steps;
  return found;
}

bool SuccessDefinitions::disagree() const {
  const double lowest = std::min(at_end.rate, held.rate);  // neither is above the success rate
  return lowest < at_any_time.low;
}

int LongestEpisode(std::span<const run::EpisodeRecord> records, std::string_view split) {
  int n_steps = 0;
  for (const run::EpisodeRecord& record : records) {
    if (record.split == split) n_steps = std::max(n_steps, record.n_steps);
  }
  return n_steps;
}

std::optional<SuccessOverTime> DescribeSuccessOverTime(std::span<const run::EpisodeRecord> records,
                                                       std::string_view split, int horizon) {
  SuccessOverTime described = {.horizon = horizon};
  std::vector<ObservedTime> times;
  for (const run::EpisodeRecord& record : records) {
    if (record.split != split) continue;
    const std::optional<int> step = StepOfSuccess(record);
    if (record.success && !step) return std::nullopt;
    times.push_back({.step = step.value_or(described.horizon), .is_success = record.success});
  }
  described.curve = KaplanMeier(times);
  if (described.curve.empty()) return std::nullopt;
  described.restricted_mean = RestrictedMeanTime(times, described.horizon);
  described.throughput = SuccessesPerStep(records, split);
  described.definitions = DefinitionsOf(records, split);
  return described;
}

Json ToJson(const SuccessOverTime& described, double control_hz) {
  const auto rate = [&described](double factor) -> Json {
    return {{"rate", factor * described.throughput.per_step},
            {"low", factor * described.throughput.low},
            {"high", factor * described.throughput.high}};
  };
  Json definitions;
  if (described.definitions) {
    definitions = {{"at_any_time", described.definitions->at_any_time},
                   {"at_end", described.definitions->at_end},
                   {"held", described.definitions->held},
                   {"held_steps", kHeldSteps},
                   {"disagree", described.definitions->disagree()}};
  }
  return {{"horizon", described.horizon},
          {"restricted_mean",
           {{"mean", described.restricted_mean.mean},
            {"low", described.restricted_mean.low},
            {"high", described.restricted_mean.high}}},
          {"per_1000_steps", rate(1000.0)},
          {"per_hour", control_hz > 0.0 ? rate(3600.0 * control_hz) : Json()},
          {"definitions", definitions},
          {"curve", described.curve}};
}

}  // namespace dp_bench::compare
