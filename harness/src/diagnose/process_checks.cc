#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "diagnose/log_checks.h"
#include "diagnose/policy_checks.h"
#include "diagnose/probe.h"
#include "train/clip_reach.h"
#include "train/train_config.h"

namespace dp_bench::diagnose {
namespace {

using torch::Tensor;

constexpr double kTolerance = 0.05;  // share of the data's range
constexpr double kMaxClippedShare = 0.005;

torch::Tensor Values(const Signal& signal) {
  return torch::from_blob(const_cast<float*>(signal.values.data()), {signal.n_steps(), signal.dim});
}

// "min -1, fitted to -3" for the statistic that is farthest off; empty if all agree. A sample of
// the data may have a smaller range and another mean, but no values beyond.
std::string WorstDifference(const KeyStats& fitted, const Signal& signal, bool is_sample) {
  double worst = kTolerance;
  std::string text;
  for (std::int64_t d = 0; d < signal.dim; ++d) {
    const std::vector<float> column = signal.Column(d);
    const auto [low, high] = std::ranges::minmax(column);
    const double range = std::max(1e-4, static_cast<double>(high) - static_cast<double>(low));
    const auto i = static_cast<std::size_t>(d);
    const auto compare = [&](const char* name, double found, double wanted) {
      const double off = std::abs(found - wanted) / range;
      if (!(off > worst)) return;
      worst = off;
      text = fmt::format("'{}'[{}] has {} {:.4g}, fitted to {:.4g}", signal.name, d, name, found,
                         wanted);
    };
    if (!is_sample || low < fitted.min[i]) compare("min", low, fitted.min[i]);
    if (!is_sample || high > fitted.max[i]) compare("max", high, fitted.max[i]);
    if (is_sample || std::ssize(fitted.mean) != signal.dim) continue;  // LeRobot's may have none
    compare("mean", Values(signal).select(1, d).to(torch::kFloat64).mean().item<double>(),
            fitted.mean[i]);
  }
  return text;
}

torch::Tensor NormalizedAction(const Normalizer& normalizer, const Demonstrations& data) {
  return normalizer.Normalize("action", Values(data.action()));
}

Finding CheckStatistics(const Normalizer& normalizer, const Demonstrations& data) {
  std::vector<std::string> found;
  for (const Signal& signal : data.signals) {
    const auto field = normalizer.fields().find(signal.name);
    if (field == normalizer.fields().end()) continue;
    const KeyStats& stats = field->second.stats;
    if (std::ssize(stats.min) != signal.dim || std::ssize(stats.max) != signal.dim) continue;
    const std::string difference = WorstDifference(stats, signal, data.is_sample);
    if (!difference.empty()) found.push_back(difference);
  }
  return DecideByFaults(
      "normalizer.wrong_statistics", found, "",
      fmt::format("{} of {} keys {} within {:.0f} % of their range",
                  data.is_sample ? "the values" : "min, max and mean", data.signals.size(),
                  data.is_sample ? "lie in the fitted range" : "agree", 100.0 * kTolerance));
}

Finding CheckClipRange(const Normalizer& normalizer, const Demonstrations& data,
                       const std::optional<NoiseSchedulerConfig>& scheduler) {
  if (!scheduler || !scheduler->clip_sample) {
    return LeaveOpen("normalizer.clip_conflict", "predicted actions are not clipped");
  }
  const torch::Tensor x_0 = NormalizedAction(normalizer, data);
  const double share =
      (x_0.abs() > scheduler->clip_sample_range * 1.001).to(torch::kFloat64).mean().item<double>();
  const auto reach = train::ActionReach(normalizer, *scheduler);
  return Decide(
      "normalizer.clip_conflict", share > kMaxClippedShare,
      "{:.2f} % of the normalized actions lie beyond +-{:g}, where predictions are clipped{}",
      100.0 * share, scheduler->clip_sample_range, reach ? "; " + reach->InWords() : "");
}

Finding CheckScale(const Normalizer& normalizer, const Demonstrations& data) {
  const torch::Tensor x_0 = NormalizedAction(normalizer, data).to(torch::kFloat64);
  const torch::Tensor largest = x_0.abs().amax();
  const double std = x_0.std(/*unbiased=*/false).item<double>();
  const double mean = x_0.mean().item<double>();
  const bool is_fault =
      !(largest.item<double>() <= 20.0 && std >= 0.02 && std <= 3.0 && std::abs(mean) <= 2.0);
  return Decide("A.input_range", is_fault, Summary(x_0));
}

constexpr int kBins = 10;
constexpr double kMinPValue = 1e-5;
constexpr double kMaxTerminalSignal = 0.1;
constexpr double kMaxPrecisionChange = 0.2;

Tensor RowsOf(const Tensor& table, const Tensor& timesteps) {
  return table.index_select(0, timesteps).view({-1, 1, 1});
}

// The policy's own table; the config's, if it noted none that fits.
Tensor AlphasCumprodOf(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor& noted = sample.alphas_cumprod;
  if (noted.defined() && noted.numel() == scheduler.config().num_train_timesteps) return noted;
  return torch::tensor(scheduler.alphas_cumprod(), torch::kFloat64);
}

// The first timestep of a bin.
std::int64_t BinBegin(int bin, int n_bins, int num_train_timesteps) {
  return std::int64_t{bin} * num_train_timesteps / n_bins;
}

Tensor IsInBin(const Tensor& timesteps, int bin, int n_bins, int num_train_timesteps) {
  return timesteps.ge(BinBegin(bin, n_bins, num_train_timesteps))
      .logical_and(timesteps.lt(BinBegin(bin + 1, n_bins, num_train_timesteps)));
}

// Mean square error of the prediction in each of `n_bins` equal ranges of the timesteps; NaN
// without a row.
std::vector<double> ErrorsByTimestep(const ProcessSample& sample, const NoiseScheduler& scheduler,
                                     int n_bins) {
  const Tensor target = scheduler.Target(sample.x_0, sample.noise, sample.timesteps);
  const Tensor errors = (sample.prediction - target).square().mean({1, 2});
  std::vector<double> means;
  for (int b = 0; b < n_bins; ++b) {
    const Tensor chosen = errors.masked_select(
        IsInBin(sample.timesteps, b, n_bins, scheduler.config().num_train_timesteps));
    means.push_back(chosen.numel() == 0 ? std::numeric_limits<double>::quiet_NaN()
                                        : chosen.mean().item<double>());
  }
  return means;
}

// The number of timesteps in each of these ranges.
std::vector<std::int64_t> CountsByTimestep(const Tensor& timesteps, int num_train_timesteps,
                                           int n_bins) {
  std::vector<std::int64_t> counts;
  for (int b = 0; b < n_bins; ++b) {
    counts.push_back(IsInBin(timesteps, b, n_bins, num_train_timesteps).sum().item<std::int64_t>());
  }
  return counts;
}

// Chi-square of the counts in bins against the counts expected from the bins' widths.
double ChiSquare(const Tensor& timesteps, int num_train_timesteps) {
  const auto n = static_cast<double>(timesteps.numel());
  const int bins = std::min(kBins, num_train_timesteps);
  const std::vector<std::int64_t> counts = CountsByTimestep(timesteps, num_train_timesteps, bins);
  double sum = 0.0;
  for (int b = 0; b < bins; ++b) {
    const auto width = static_cast<double>(BinBegin(b + 1, bins, num_train_timesteps) -
                                           BinBegin(b, bins, num_train_timesteps));
    const double expected = n * width / num_train_timesteps;
    const auto found = static_cast<double>(counts[static_cast<std::size_t>(b)]);
    sum += (found - expected) * (found - expected) / expected;
  }
  return sum;
}

// B: the timesteps are not uniform (Pearson's chi-square over ten bins).
Finding CheckTimesteps(const Tensor& timesteps, int num_train_timesteps) {
  const double statistic = ChiSquare(timesteps, num_train_timesteps);
  const boost::math::chi_squared distribution(
      std::max(1, std::min(kBins, num_train_timesteps) - 1));
  const double p = boost::math::cdf(boost::math::complement(distribution, statistic));
  const double t = num_train_timesteps;
  return Decide("B.timesteps", p < kMinPValue,
                "chi-square {:.1f}, p = {:.2g}; {} (uniform: mean {:.1f}, std {:.1f})", statistic,
                p, Summary(timesteps), (t - 1.0) / 2.0, std::sqrt((t * t - 1.0) / 12.0));
}

// C: the noise is not N(0, 1), or x_t does not follow from it and x_0 (DDPM eq. 4) with the tables
// that the policy noted; the config's, if it noted none.
Finding CheckForwardProcess(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor alphas_cumprod = AlphasCumprodOf(sample, scheduler);
  const Tensor expected = RowsOf(alphas_cumprod.sqrt(), sample.timesteps) * sample.x_0 +
                          RowsOf((1.0 - alphas_cumprod).sqrt(), sample.timesteps) * sample.noise;
  const double off = (sample.x_t - expected).abs().max().item<double>();
  const Tensor noise = sample.noise.to(torch::kFloat64);
  const double tolerance = 6.0 / std::sqrt(static_cast<double>(noise.numel()));
  const bool is_normal = std::abs(noise.mean().item<double>()) < tolerance &&
                         std::abs(noise.std().item<double>() - 1.0) < tolerance;
  return Decide("C.forward_process", !(off < 1e-3) || !is_normal,
                "largest difference to the closed form {:.2g}; noise: {}; x_t: {}", off,
                Summary(noise), Summary(sample.x_t));
}

// D: the network's output is not finite, or of another scale than its target.
Finding CheckPrediction(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor target = scheduler.Target(sample.x_0, sample.noise, sample.timesteps);
  const bool is_finite = torch::isfinite(sample.prediction).all().item<bool>();
  if (!is_finite) return Decide("D.prediction", true, "it contains NaN or Inf");
  const double ratio = sample.prediction.std().item<double>() / target.std().item<double>();
  return Decide("D.prediction", ratio > 10.0,
                "{}; target: {}; mean square error by fifths of the timesteps: {:.3g}",
                Summary(sample.prediction), Summary(target),
                fmt::join(ErrorsByTimestep(sample, scheduler, 5), " "));
}

// Training ends at less noise than sampling starts from (Lin et al. 2024, "Common diffusion noise
// schedules and sample steps are flawed").
Finding CheckTerminalNoise(const NoiseScheduler& scheduler) {
  const double signal = std::sqrt(scheduler.alphas_cumprod().back());
  return Decide("F.terminal_noise", signal > kMaxTerminalSignal,
                "the last timestep keeps {:.1f} % of x_0", 100.0 * signal);
}

Tensor Differences(const Tensor& table, const std::vector<double>& expected) {
  return (table.flatten().to(torch::kFloat64) - torch::tensor(expected, torch::kFloat64)).abs();
}

// F: the tables that the policy noted differ from those of the noise scheduler of its config.
Finding CheckConstants(const ProcessSample& sample, const NoiseScheduler& scheduler) {
  const Tensor& used = sample.alphas_cumprod;
  const Tensor& betas = sample.betas;
  if (!used.defined()) {
    return LeaveOpen("F.constants",
                     "the policy does not note its alphas_cumprod (dp_bench/stage_trace.h)");
  }
  const std::int64_t n = std::ssize(scheduler.alphas_cumprod());
  const std::int64_t n_betas = betas.defined() ? betas.numel() : 0;
  if (used.numel() != n || (n_betas > 0 && n_betas != n)) {
    return Decide("F.constants", true,
                  "tables of {} betas and {} alphas_cumprod, num_train_timesteps is {}", n_betas,
                  used.numel(), n);
  }
  Tensor differences = Differences(used, scheduler.alphas_cumprod());
  if (n_betas > 0) differences = torch::cat({differences, Differences(betas, scheduler.betas())});
  const double off = differences.max().item<double>();  // NaN if one of them is
  return Decide("F.constants", !(off <= 1e-5),
                "alphas_cumprod of the policy {:.4g} to {:.3g}; largest difference to the "
                "scheduler of the config {:.1g}",
                used.flatten()[0].item<double>(), used.flatten()[-1].item<double>(), off);
}

constexpr std::int64_t kTableEdge = 10;  // values shown of each end of a table

std::string Number(double x) { return std::isnan(x) ? "–" : fmt::format("{:.4g}", x); }

std::string Interval(double low, double high) {
  return std::isnan(low) ? "–" : fmt::format("[{:.4g}, {:.4g}]", low, high);
}

std::string BrokenSteps(std::span<const LoggedRange> points) {
  const auto n_broken = std::ranges::count_if(
      points, [](const LoggedRange& point) { return !point.range.is_finite(); });
  return fmt::format("{} of {} steps", n_broken, points.size());
}

// Rows about a tensor of the process: early and late in the log, in the probed batches, and as it
// should be.
void AddRangeRows(const EvidenceSources& sources, const char* name, const char* logged,
                  const Tensor& probed, const ValueRange& expected, EvidenceTable* table) {
  std::vector<std::vector<std::string>> rows;
  for (const char* what : {"range", "mean", "std", "NaN or Inf"}) {
    rows.push_back({fmt::format("{} {}", name, what)});
  }
  table->head = {""};
  const auto add = [&](const char* column, const ValueRange& range, std::string n_not_finite) {
    table->head.emplace_back(column);
    rows[0].push_back(Interval(range.min, range.max));
    rows[1].push_back(Number(range.mean));
    rows[2].push_back(Number(range.std));
    rows[3].push_back(std::move(n_not_finite));
  };
  // without ranges in the log, as in those of earlier versions, there are no columns for it
  if (sources.log != nullptr && !sources.log->RangesOf("x0").empty()) {
    const auto points = sources.log->RangesOf(logged);
    add("log, first tenth", Merged(FirstTenth(points)), BrokenSteps(FirstTenth(points)));
    add("log, last tenth", Merged(LastTenth(points)), BrokenSteps(LastTenth(points)));
  }
  const std::int64_t n_broken =
      probed.defined() ? torch::isfinite(probed).logical_not().sum().item<std::int64_t>() : 0;
  add("probed batches", RangeOf(probed), std::to_string(n_broken));
  add("expected", expected, "0");
  table->rows.insert(table->rows.end(), rows.begin(), rows.end());
}

// x_0, t, noise, x_t and the predicted x_0: the evidence for A to D.
void AddRangeTables(const EvidenceSources& sources, Diagnosis* diagnosis) {
  const ProcessSample& sample = *sources.sample;
  const ValueRange unknown;
  const double n_timesteps = sources.scheduler ? sources.scheduler->num_train_timesteps : 0.0;
  ValueRange uniform;
  if (n_timesteps > 0.0) {
    uniform = {.min = 0.0,
               .max = n_timesteps - 1.0,
               .mean = (n_timesteps - 1.0) / 2.0,
               .std = std::sqrt((n_timesteps * n_timesteps - 1.0) / 12.0)};
  }
  const auto add = [&](const char* hypothesis, const char* name, const char* logged,
                       const Tensor& probed, const ValueRange& expected) {
    std::vector<EvidenceTable>& tables = diagnosis->tables;
    if (tables.empty() || tables.back().hypothesis != hypothesis) {
      tables.push_back({.hypothesis = hypothesis, .head = {}});
    }
    AddRangeRows(sources, name, logged, probed, expected, &tables.back());
  };
  add("A", "x_0", "x0", sample.x_0, unknown);
  add("B", "t", "t", sample.timesteps, uniform);
  add("C", "noise", "noise", sample.noise, {.mean = 0.0, .std = 1.0});
  add("C", "x_t", "xt", sample.x_t, unknown);
  add("D", "predicted x_0", "predicted_x0", train::PredictedX0(sample), RangeOf(sample.x_0));
  EvidenceTable& table = diagnosis->tables.back();
  std::vector<std::string> types(table.head.size(), sources.precision);
  types.front() = "predicted x_0 type";
  types.back() = "float32 (target)";
  table.rows.push_back(std::move(types));
}

std::string EdgeText(const Tensor& table, bool is_first) {
  const std::int64_t n = std::min(kTableEdge, table.numel());
  const Tensor edge = table.narrow(0, is_first ? 0 : table.numel() - n, n);
  return Interval(edge[0].item<double>(), edge[-1].item<double>());
}

// The evidence for F: the tables that the policy noted beside those of the config.
void AddConstantsTable(const ProcessSample& sample, const NoiseScheduler& scheduler,
                       Diagnosis* diagnosis) {
  if (!sample.alphas_cumprod.defined()) return;
  EvidenceTable table = {.hypothesis = "F",
                         .head = {"", "first ten", "last ten", "last ten by the config"}};
  const auto add = [&](const char* name, const Tensor& used, const Tensor& configured) {
    table.rows.push_back(
        {name, EdgeText(used, true), EdgeText(used, false), EdgeText(configured, false)});
  };
  const Tensor betas = torch::tensor(scheduler.betas(), torch::kFloat64);
  const Tensor alphas = torch::tensor(scheduler.alphas_cumprod(), torch::kFloat64);
  const Tensor& used = sample.alphas_cumprod;
  if (sample.betas.defined()) add("betas", sample.betas, betas);
  add("alphas_cumprod", used, alphas);
  add("sqrt_alphas_cumprod", used.sqrt(), alphas.sqrt());
  add("sqrt_one_minus_alphas_cumprod", (1.0 - used).sqrt(), (1.0 - alphas).sqrt());
  diagnosis->tables.push_back(std::move(table));
}

void AddLossTable(const LogCurves& log, const LossStatistics& loss, Diagnosis* diagnosis) {
  EvidenceTable table = {.hypothesis = "E", .head = {"", "train_loss"}};
  const auto add = [&](const char* name, std::string value) {
    table.rows.push_back({name, std::move(value)});
  };
  add("range", Interval(loss.lowest, loss.highest));
  add("start (mean of the first 10 steps)", Number(loss.start));
  add("end (mean of the last 10 steps)", Number(loss.end));
  add("fall", fmt::format("{:.2f} %", 100.0 * loss.fall()));
  add("outliers (above 3 times the median of their tenth)", OutliersInWords(loss));
  add("plateau", loss.plateau ? fmt::format("since step {:.0f}, at {:.4g}, {:.0f} % of the steps",
                                            loss.plateau->first_step, loss.plateau->loss,
                                            100.0 * loss.plateau->share)
                              : "none");
  add("NaN or Inf", fmt::format("{} steps", loss.n_not_finite));
  add("log", fmt::format("{} lines, steps {:.0f} to {:.0f}, {} with ranges, {} with val_loss",
                         log.n_lines, log.train_loss.front().step, log.train_loss.back().step,
                         log.RangesOf("x0").size(), log.val_loss.size()));
  diagnosis->tables.push_back(std::move(table));
}

report::PlotSeries SeriesOf(const std::string& label, std::span<const LoggedRange> points,
                            double ValueRange::*value) {
  report::PlotSeries series = {.label = label, .points = {}};
  for (const LoggedRange& point : points) {
    series.points.push_back({point.step, point.range.*value});
  }
  return series;
}

// Smallest and largest values of two tensors.
report::LinePlot RangePlot(const LogCurves& log, const std::string& first,
                           const std::string& second) {
  report::LinePlot plot = {.title = fmt::format("Ranges over training: {} and {}", first, second),
                           .x_label = "step"};
  for (const std::string& name : {first, second}) {
    plot.series.push_back(SeriesOf(name + " min", log.RangesOf(name), &ValueRange::min));
    plot.series.push_back(SeriesOf(name + " max", log.RangesOf(name), &ValueRange::max));
  }
  return plot;
}

report::LinePlot PredictionPlot(const LogCurves& log) {
  const auto predicted = log.RangesOf("predicted_x0");
  const auto x_0 = log.RangesOf("x0");
  return {.title = "Predicted x_0 over training",
          .series = {SeriesOf("predicted std", predicted, &ValueRange::std),
                     SeriesOf("x0 std", x_0, &ValueRange::std),
                     SeriesOf("predicted mean", predicted, &ValueRange::mean),
                     SeriesOf("x0 mean", x_0, &ValueRange::mean)},
          .x_label = "step"};
}

report::PlotSeries LossSeries(const char* label, const std::vector<LoggedLoss>& points) {
  report::PlotSeries series = {.label = label, .points = {}};
  for (const LoggedLoss& point : points) series.points.push_back({point.step, point.loss});
  return series;
}

report::LinePlot LossPlot(const LogCurves& log) {
  report::LinePlot plot = {.title = "Loss", .log_y = true, .x_label = "step"};
  plot.series.push_back(LossSeries("train_loss", log.train_loss));
  if (!log.val_loss.empty()) plot.series.push_back(LossSeries("val_loss", log.val_loss));
  return plot;
}

// The share of the probed rows and their error in each tenth of the timesteps.
void AddTimestepPlots(const ProcessSample& sample, const NoiseScheduler& scheduler,
                      Diagnosis* diagnosis) {
  const int n_timesteps = scheduler.config().num_train_timesteps;
  const int n_bins = std::min(kBins, n_timesteps);
  const auto counts = CountsByTimestep(sample.timesteps, n_timesteps, n_bins);
  const auto errors = ErrorsByTimestep(sample, scheduler, n_bins);
  report::PlotSeries drawn = {.label = "drawn", .points = {}};
  report::PlotSeries uniform = {.label = "uniform", .points = {}};
  report::PlotSeries loss = {.label = "mean square error", .points = {}};
  for (int b = 0; b < n_bins; ++b) {
    const auto i = static_cast<std::size_t>(b);
    const double middle = (b + 0.5) * n_timesteps / n_bins;
    drawn.points.push_back({middle, static_cast<double>(counts[i])});
    uniform.points.push_back({middle, static_cast<double>(sample.timesteps.numel()) / n_bins});
    loss.points.push_back({middle, errors[i]});
  }
  diagnosis->plots.push_back({.title = "Histogram of t in the probed batches",
                              .series = {drawn, uniform},
                              .from_zero = true,
                              .x_label = "timestep"});
  diagnosis->plots.push_back({.title = "Loss by timestep in the probed batches",
                              .series = {loss},
                              .log_y = true,
                              .x_label = "timestep"});
}

void AddPredictionNote(const LogCurves& log, Diagnosis* diagnosis) {
  const auto predicted = log.RangesOf("predicted_x0");
  if (predicted.size() < 2) return;
  const ValueRange early = Merged(FirstTenth(predicted));
  const ValueRange late = Merged(LastTenth(predicted));
  diagnosis->notes.push_back(fmt::format(
      "The predicted x_0 went from [{:.3g}, {:.3g}], std {:.3g}, to [{:.3g}, {:.3g}], std {:.3g}; "
      "x_0 has std {:.3g}.",
      early.min, early.max, early.std, late.min, late.max, late.std,
      Merged(LastTenth(log.RangesOf("x0"))).std));
}

void AddLogEvidence(const LogCurves& log, Diagnosis* diagnosis) {
  diagnosis->loss = StatisticsOf(log);
  if (diagnosis->loss) {
    AddLossTable(log, *diagnosis->loss, diagnosis);
    diagnosis->notes.push_back(fmt::format("The loss went from {:.4g} to {:.4g} ({:.2f} % less).",
                                           diagnosis->loss->start, diagnosis->loss->end,
                                           100.0 * diagnosis->loss->fall()));
  }
  AddPredictionNote(log, diagnosis);
  diagnosis->plots.push_back(LossPlot(log));
  diagnosis->plots.push_back(RangePlot(log, "x0", "predicted_x0"));
  diagnosis->plots.push_back(RangePlot(log, "noise", "xt"));
  diagnosis->plots.push_back(PredictionPlot(log));
}

}  // namespace

Finding CheckFittedClipRange(const Normalizer& normalizer, const NoiseSchedulerConfig& scheduler) {
  Finding hypothesis = Hypothesis("normalizer.clip_conflict");
  hypothesis.severity = Severity::kNote;
  const auto reach = train::ActionReach(normalizer, scheduler);
  if (!reach) return LeaveOpen(hypothesis, "the normalizer has no statistics of the actions");
  return Decide(hypothesis, reach->n_cut > 0, reach->InWords());
}

Findings CheckNormalizer(const Normalizer& normalizer, const Demonstrations& data,
                         const std::optional<NoiseSchedulerConfig>& scheduler) {
  return {CheckStatistics(normalizer, data), CheckClipRange(normalizer, data, scheduler),
          CheckScale(normalizer, data)};
}

std::string PrecisionInWords(const ProcessSample& sample, train::MixedPrecision precision) {
  const auto name = [](std::optional<torch::ScalarType> type) {
    return type ? std::string(c10::getDtypeNames(*type).first) : std::string("unknown");
  };
  const auto products = train::ProductType(precision);
  if (!products) return name(sample.output_type);
  return fmt::format("products in {}, output in {}", name(products), name(sample.output_type));
}

Finding CheckPrecision(const ProcessSample& lower, const ProcessSample& full,
                       train::MixedPrecision precision) {
  const double change = lower.losses.front() / full.losses.front() - 1.0;
  const bool is_finite =
      !lower.prediction.defined() || torch::isfinite(lower.prediction).all().item<bool>();
  return Decide("D.precision", !is_finite || !(std::abs(change) < kMaxPrecisionChange),
                "{}, target in float32; loss {:.4g}, in float32 {:.4g}",
                PrecisionInWords(lower, precision), lower.losses.front(), full.losses.front());
}

Findings CheckProcess(const ProcessSample& sample,
                      const std::optional<NoiseSchedulerConfig>& scheduler_config,
                      bool is_trained) {
  if (!scheduler_config || !sample.is_complete()) {
    return {LeaveOpen("process",
                      "the policy has no noise_scheduler or another objective than diffusion, or "
                      "reports no stages")};
  }
  const NoiseScheduler scheduler(*scheduler_config);
  Findings findings = {CheckTimesteps(sample.timesteps, scheduler_config->num_train_timesteps),
                       CheckForwardProcess(sample, scheduler), CheckPrediction(sample, scheduler)};
  if (is_trained) {
    const Tensor predicted = train::PredictedX0(sample);
    findings.push_back(
        CheckPredictedX0(RangeOf(predicted), RangeOf(predicted.defined() ? sample.x_0 : Tensor())));
  }
  findings.push_back(CheckConstants(sample, scheduler));
  findings.push_back(CheckTerminalNoise(scheduler));
  return findings;
}

void AddEvidence(const EvidenceSources& sources, Diagnosis* diagnosis) {
  if (sources.log != nullptr) AddLogEvidence(*sources.log, diagnosis);
  if (sources.sample == nullptr || !sources.sample->is_complete()) return;
  AddRangeTables(sources, diagnosis);
  if (!sources.scheduler) return;
  const NoiseScheduler scheduler(*sources.scheduler);
  AddConstantsTable(*sources.sample, scheduler, diagnosis);
  AddTimestepPlots(*sources.sample, scheduler, diagnosis);
}

}  // namespace dp_bench::diagnose
