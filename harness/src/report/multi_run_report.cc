// For the page see multi_run.html.mustache.
#include "report/multi_run_report.h"

#include <fmt/format.h>

#include <kainjow/mustache.hpp>
#include <string_view>

#include "compare/success_rate.h"
#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "report/line_plot.h"
#include "report/page_data.h"
#include "report/page_templates.h"

namespace dp_bench::report {
namespace {

using kainjow::mustache::data;

data SeedRows(const compare::MultiRun& multi_run) {
  data rows = List();
  for (const compare::SeedRun& run : multi_run.runs) {
    const compare::RateInterval rate =
        compare::WilsonInterval(run.test.n_success, run.test.n_episodes);
    data row;
    row.set("seed", std::to_string(run.seed));
    row.set("folder", run.folder);
    row.set("rate", Percent(rate.rate));
    row.set("low", Percent(rate.low));
    row.set("high", Percent(rate.high));
    row.set("n_success", std::to_string(rate.n_success));
    row.set("n", std::to_string(rate.n));
    row.set("mean_score", fmt::format("{:.3f}", run.test.mean_score));
    row.set("n_failed", std::to_string(run.test.n_failed));
    rows.push_back(row);
  }
  return rows;
}

data Plots(const compare::MultiRun& multi_run) {
  struct Choice {
    const char* title;
    const char* key;
    bool log_y;
  };
  data plots = List();
  for (const Choice& choice :
       {Choice{"Success rate", "test/success_rate", false},
        Choice{"Mean score", "test/mean_score", false}, Choice{"Loss", "train_loss", true}}) {
    LinePlot plot = {.title = choice.title, .log_y = choice.log_y, .unit_range = !choice.log_y};
    for (const compare::SeedRun& run : multi_run.runs) {
      const auto curve = run.files.curves.find(choice.key);
      if (curve == run.files.curves.end()) continue;
      plot.series.push_back({fmt::format("seed {}", run.seed), curve->second});
    }
    AppendPlot(plot, &plots);
  }
  return plots;
}

data Headline(const compare::MeanInterval& rate) {
  data headline;
  headline.set("rate", Percent(rate.mean));
  headline.set("n", std::to_string(rate.n));
  headline.set("has_spread", rate.n > 1);
  if (rate.n < 2) return headline;
  headline.set("std", Percent(rate.std_dev));
  headline.set("low", Percent(rate.low));
  headline.set("high", Percent(rate.high));
  headline.set("width", Percent(rate.high - rate.low));
  return headline;
}

}  // namespace

void WriteMultiRunReport(const compare::MultiRun& multi_run) {
  DPB_ASSERT(!multi_run.runs.empty());
  data page;
  page.set("style", kReportStyle);
  page.set("title", run::RunTitle(multi_run.runs.front().files));
  page.set("headline", Headline(multi_run.success_rate));
  page.set("mean_score", fmt::format("{:.3f}", multi_run.mean_score.mean));
  page.set("score_std", fmt::format("{:.3f}", multi_run.mean_score.std_dev));
  page.set("rows", SeedRows(multi_run));
  page.set("plots", Plots(multi_run));
  core::WriteFileAtomically(multi_run.report_file(), RenderPage(kMultiRunTemplate, page));
}

}  // namespace dp_bench::report
