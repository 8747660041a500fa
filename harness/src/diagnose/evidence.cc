// See evidence.h.
#include "diagnose/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "diagnose/process_checks.h"

namespace dp_bench::diagnose {
namespace {

using torch::Tensor;

constexpr int kTimestepBins = 10;
constexpr std::int64_t kTableEdge = 10;  // values shown of each end of a table

/// A column of a table of ranges.
struct RangeColumn {
  std::string head;
  ValueRange range;
  std::string n_not_finite;
};

std::string Number(double x) { return std::isnan(x) ? "–" : fmt::format("{:.4g}", x); }

std::string Interval(double low, double high) {
  return std::isnan(low) ? "–" : fmt::format("[{:.4g}, {:.4g}]", low, high);
}

void AddRangeRows(const std::string& name, const std::vector<RangeColumn>& columns,
                  EvidenceTable* table) {
  const auto add = [&](const char* what, const std::function<std::string(const RangeColumn&)>& of) {
    std::vector<std::string>& row = table->rows.emplace_back();
    row.push_back(fmt::format("{} {}", name, what));
    for (const RangeColumn& column : columns) row.push_back(of(column));
  };
  add("range", [](const RangeColumn& c) { return Interval(c.range.min, c.range.max); });
  add("mean", [](const RangeColumn& c) { return Number(c.range.mean); });
  add("std", [](const RangeColumn& c) { return Number(c.range.std); });
  add("NaN or Inf", [](const RangeColumn& c) { return c.n_not_finite; });
}

std::string BrokenSteps(std::span<const LoggedRange> points) {
  const auto n_broken = std::ranges::count_if(
      points, [](const LoggedRange& point) { return !point.range.is_finite(); });
  return fmt::format("{} of {} steps", n_broken, points.size());
}

// A tensor of the process: in the probed batches, early and late in the log, and as it should be.
std::vector<RangeColumn> ColumnsOf(const EvidenceSources& sources, const Tensor& probed,
                                   const std::string& logged, const ValueRange& expected) {
  std::vector<RangeColumn> columns;
  // without ranges in the log, as in those of earlier versions, there are no columns for it
  if (sources.log != nullptr && !sources.log->RangesOf("x0").empty()) {
    const auto points = sources.log->RangesOf(logged);
    const auto early = FirstTenth(points);
    const auto late = LastTenth(points);
    columns.push_back({"log, first tenth", Merged(early), BrokenSteps(early)});
    columns.push_back({"log, last tenth", Merged(late), BrokenSteps(late)});
  }
  if (sources.sample != nullptr) {
    const std::int64_t n_broken =
        probed.defined() ? torch::isfinite(probed).logical_not().sum().item<std::int64_t>() : 0;
    columns.push_back({"probed batches", RangeOf(probed), std::to_string(n_broken)});
  }
  columns.push_back({"expected", expected, "0"});
  return columns;
}

void AddTable(const char* hypothesis,
              const std::vector<std::pair<std::string, std::vector<RangeColumn>>>& tensors,
              Diagnosis* diagnosis) {
  EvidenceTable table = {.hypothesis = hypothesis, .head = {""}};
  for (const RangeColumn& column : tensors.front().second) table.head.push_back(column.head);
  for (const auto& [name, columns] : tensors) AddRangeRows(name, columns, &table);
  diagnosis->tables.push_back(std::move(table));
}

// x_0, t, noise, x_t and the predicted x_0: the evidence for A to D.
void AddRangeTables(const EvidenceSources& sources, Diagnosis* diagnosis) {
  const ProcessSample& sample = *sources.sample;
  const auto columns = [&](const Tensor& probed, const char* logged, const ValueRange& expected) {
    return ColumnsOf(sources, probed, logged, expected);
  };
  const ValueRange unknown;
  const double n_timesteps = sources.scheduler ? sources.scheduler->num_train_timesteps : 0.0;
  ValueRange uniform;
  if (n_timesteps > 0.0) {
    uniform = {.min = 0.0,
               .max = n_timesteps - 1.0,
               .mean = (n_timesteps - 1.0) / 2.0,
               .std = std::sqrt((n_timesteps * n_timesteps - 1.0) / 12.0)};
  }
  AddTable("A", {{"x_0", columns(sample.x_0, "x0", unknown)}}, diagnosis);
  AddTable("B", {{"t", columns(sample.timesteps, "t", uniform)}}, diagnosis);
  AddTable("C",
           {{"noise", columns(sample.noise, "noise", {.mean = 0.0, .std = 1.0})},
            {"x_t", columns(sample.x_t, "xt", unknown)}},
           diagnosis);
  AddTable(
      "D",
      {{"predicted x_0", columns(train::PredictedX0(sample), "predicted_x0", RangeOf(sample.x_0))}},
      diagnosis);
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
  const int n_bins = std::min(kTimestepBins, n_timesteps);
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
