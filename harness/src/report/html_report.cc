// Numbers become text here, the page itself is report.html.mustache. Whatever comes from files is
// escaped: by mustache's double braces, and in line_plot.cc.
#include "report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <kainjow/mustache.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "compare/success_rate.h"
#include "core/atomic_file.h"
#include "core/json.h"
#include "dp_bench/error.h"
#include "report/denoising_strip.h"
#include "report/failure_report.h"
#include "report/latency_report.h"
#include "report/line_plot.h"
#include "report/link.h"
#include "report/page_data.h"
#include "report/page_templates.h"
#include "report/video_section.h"
#include "run/run_folder.h"
#include "run/run_id.h"
#include "run/seed_use.h"

namespace dp_bench::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using kainjow::mustache::data;

constexpr std::size_t kMaxEffectBytes = std::size_t{1} << 20;

data SplitData(const run::RunFolder& folder, const std::string& split) {
  const run::SplitSummary summary = run::Summarize(folder.episodes, split);
  const compare::RateInterval rate = compare::WilsonInterval(summary.n_success, summary.n_episodes);
  std::vector<double> scores;
  double steps = 0.0;
  for (const run::EpisodeRecord& record : folder.episodes) {
    if (record.split != split) continue;
    scores.push_back(record.score);
    steps += record.n_steps;
  }
  std::sort(scores.begin(), scores.end());
  const std::size_t middle = scores.size() / 2;
  const double median =
      scores.size() % 2 == 1 ? scores[middle] : 0.5 * (scores[middle - 1] + scores[middle]);

  data result;
  result.set("split", split);
  result.set("rate", Percent(rate.rate));
  result.set("low", Percent(rate.low));
  result.set("high", Percent(rate.high));
  result.set("width", Percent(rate.high - rate.low));
  result.set("n", std::to_string(rate.n));
  result.set("n_success", std::to_string(rate.n_success));
  result.set("mean_score", fmt::format("{:.3f}", summary.mean_score));
  result.set("median_score", fmt::format("{:.3f}", median));
  result.set("min_score", fmt::format("{:.3f}", scores.front()));
  result.set("mean_steps", fmt::format("{:.0f}", steps / rate.n));
  if (summary.n_failed > 0) {
    result.set("n_failed", std::to_string(summary.n_failed));
  } else {
    result.set("n_failed", false);
  }
  return result;
}

data CellData(const run::EpisodeRecord& record, double max_score) {
  // squared, because good policies differ in the upper part of the range
  const double depth = std::pow(std::clamp(record.score / max_score, 0.0, 1.0), 2.0);
  data cell;
  cell.set("seed", std::to_string(record.seed));
  if (record.failure_reason) {
    cell.set("score", "failed");
    cell.set("style", "failed");
    cell.set("alpha", false);
    cell.set("tooltip", *record.failure_reason);
  } else {
    cell.set("score", fmt::format("{:.3f}", record.score));
    cell.set("style",
             fmt::format("{}{}", record.success ? "success" : "", depth > 0.5 ? " deep" : ""));
    cell.set("alpha", fmt::format("{:.2f}", 0.08 + 0.85 * depth));
    cell.set("tooltip",
             fmt::format("{} seed {}: score {:.4f}, {}, {} steps", record.split, record.seed,
                         record.score, record.success ? "success" : "no success", record.n_steps));
  }
  std::string link = LinkBelow(record.video);
  if (link.empty()) {
    cell.set("href", false);
  } else {
    cell.set("href", link);
  }
  return cell;
}

data GridData(const run::RunFolder& folder, const std::string& split) {
  double max_score = 1.0;  // scores of other tasks may be larger
  for (const run::EpisodeRecord& record : folder.episodes)
    max_score = std::max(max_score, record.score);
  data cells = List();
  for (const run::EpisodeRecord& record : folder.episodes) {
    if (record.split == split) cells.push_back(CellData(record, max_score));
  }
  data grid;
  grid.set("split", split == "test" ? "Test" : "Train");
  grid.set("half_score", fmt::format("{:.3g}", 0.5 * max_score));
  grid.set("max_score", fmt::format("{:.3g}", max_score));
  grid.set("cells", cells);
  return grid;
}

data PlotsData(const run::RunFolder& folder) {
  struct Choice {
    const char* title;
    std::vector<std::string> keys;
    bool log_y;
    bool unit_range;
  };
  const std::vector<Choice> choices = {
      {"Loss", {"train_loss", "val_loss"}, true, false},
      {"Action error on training data", {"train_action_mse_error"}, true, false},
      {"Mean score", {"test/mean_score", "train/mean_score"}, false, true},
      {"Success rate", {"test/success_rate", "train/success_rate"}, false, true}};
  data plots = List();
  for (const Choice& choice : choices) {
    LinePlot plot{.title = choice.title, .log_y = choice.log_y, .unit_range = choice.unit_range};
    for (const std::string& key : choice.keys) {
      const auto curve = folder.curves.find(key);
      if (curve != folder.curves.end()) plot.series.push_back({key, curve->second});
    }
    AppendPlot(plot, &plots);
  }
  return plots;
}

data EpisodesData(const run::RunFolder& folder, bool failed_only) {
  data episodes = List();
  for (const run::EpisodeRecord& record : folder.episodes) {
    if (failed_only && !record.failure_reason) continue;
    data row;
    row.set("split", record.split);
    row.set("seed", std::to_string(record.seed));
    row.set("score", fmt::format("{:.4f}", record.score));
    row.set("success", std::string(record.success ? "yes" : "no"));
    row.set("n_steps", std::to_string(record.n_steps));
    row.set("trace_hash", record.trace_hash.substr(0, 16));
    row.set("reason", record.failure_reason.value_or(""));
    episodes.push_back(row);
  }
  return episodes;
}

// The evaluation's keys but for those per seed, which the grid shows, and the names of files.
data NumbersData(const run::RunFolder& folder) {
  data numbers = List();
  if (!folder.eval_log.is_object()) return numbers;
  for (const auto& [key, value] : folder.eval_log.items()) {
    if (key.find("/sim_") != std::string::npos || key == run::kRunIdKey ||
        key == run::kEpisodesHashKey) {
      continue;
    }
    data row;
    row.set("key", key);
    row.set("value", value.dump(-1, ' ', false, Json::error_handler_t::replace));
    numbers.push_back(row);
  }
  return numbers;
}

// "-0.120 (-0.250 to +0.010)"; an interval that one episode leaves open is null.
std::string EffectText(const core::JsonView& effect) {
  const auto text = [&](const char* key) {
    const auto value = effect.GetOptional<double>(key);
    return value ? fmt::format("{:+.3f}", *value) : std::string("open");
  };
  return fmt::format("{} ({} to {})", text("difference"), text("low"), text("high"));
}

data ArmData(const std::string& name, const core::JsonView& run) {
  data row;
  row.set("name", name);
  row.set("href", false);
  row.set("rate", fmt::format("{} % ({} of {})", Percent(run.Get<double>("success_rate")),
                              run.Get<int>("n_success"), run.Get<int>("n_episodes")));
  row.set("score", fmt::format("{:.3f}", run.Get<double>("mean_score")));
  for (const char* effect : {"rate_effect", "score_effect", "changed"}) row.set(effect, "");
  return row;
}

// A list, and whether it has anything: mustache cannot ask that of a heading around it.
void SetList(const std::string& name, const data& list, data* page) {
  page->set(name, list);
  page->set("has_" + name, !list.is_empty_list());
}

void SetText(const std::string& name, const std::string& text, data* page) {
  if (text.empty()) {
    page->set(name, false);
  } else {
    page->set(name, text);
  }
}

// perturbations.json: the control, then what each arm changed.
void SetArms(const fs::path& file, data* page) {
  data rows = List();
  data notes = List();
  if (fs::exists(file)) {
    const std::string what = file.string();
    const Json json = core::ReadJsonFile(file, kMaxEffectBytes);
    const core::JsonView effects(json, what);
    rows.push_back(ArmData("none", effects.At("control")));
    for (const core::JsonView& arm : effects.Elements("arms")) {
      data row = ArmData(arm.Get<std::string>("name"), arm);
      row.set("href", LinkTo(arm.Get<std::string>("folder") + "/report.html"));
      row.set("rate_effect", EffectText(arm.At("success_rate_effect")));
      row.set("score_effect", EffectText(arm.At("score_effect")));
      row.set("changed", std::to_string(arm.Get<int>("n_changed")));
      rows.push_back(row);
      data note;
      note.set("text", arm.Get<std::string>("note"));
      if (!arm.Get<std::string>("note").empty()) notes.push_back(note);
    }
  }
  SetList("arms", rows, page);
  page->set("arm_notes", notes);
}

}  // namespace

void WriteHtmlReport(const fs::path& run_dir, const HtmlReportOptions& options) {
  const run::RunFolder folder = run::ReadRunFolder(run_dir);
  data page;
  page.set("style", kReportStyle);
  page.set("title", run::RunTitle(folder));
  page.set("subtitle", "dp_bench, run folder " +
                           fs::weakly_canonical(fs::absolute(run_dir)).filename().string());

  // the first split is the headline
  data grids = List();
  data others = List();
  page.set("headline", false);
  for (const std::string& split : run::SplitsOf(folder)) {
    if (grids.is_empty_list()) {
      page.set("headline", SplitData(folder, split));
    } else {
      others.push_back(SplitData(folder, split));
    }
    data grid = GridData(folder, split);
    SetList("clusters", FailuresData(folder.episodes, split, run_dir), &grid);
    grids.push_back(grid);
  }
  page.set("others", others);
  page.set("grids", grids);
  page.set("episodes", EpisodesData(folder, /*failed_only=*/false));
  SetArms(run_dir / "perturbations.json", &page);
  SetLatency(run_dir / kLatencyFile, &page);
  SetDenoising(run_dir / kDenoisingFile, &page);
  SetList("plots", PlotsData(folder), &page);
  SetVideos(folder, options, &page);
  SetList("failed", EpisodesData(folder, /*failed_only=*/true), &page);
  SetList("numbers", NumbersData(folder), &page);
  const std::optional<run::SeedUse> seeds = run::SeedUseOf(folder.manifest);
  SetText("seeds", seeds && !folder.episodes.empty() ? run::SeedText(*seeds) : "", &page);
  page.set("has_shared_seeds", seeds && seeds->n_shared() > 0);
  SetText("config", folder.config, &page);
  SetText("manifest", folder.manifest, &page);
  data notes = List();
  for (const std::string& note : folder.notes) {
    data item;
    item.set("text", note);
    notes.push_back(item);
  }
  SetList("notes", notes, &page);

  kainjow::mustache::mustache page_template(kReportTemplate);
  DPB_ASSERT(page_template.is_valid());
  core::WriteFileAtomically(run_dir / "report.html", std::string_view(page_template.render(page)));
}

}  // namespace dp_bench::report
