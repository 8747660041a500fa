// Formats the numbers for report.html.mustache. Text from files is escaped by mustache's double
// braces and in line_plot.cc.
#include "report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <kainjow/mustache.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compare/success_rate.h"
#include "core/atomic_file.h"
#include "core/base64.h"
#include "core/json.h"
#include "dp_bench/error.h"
#include "media/film_overlay.h"
#include "report/failure_report.h"
#include "report/film_plots.h"
#include "report/film_poster.h"
#include "report/line_plot.h"
#include "report/page_data.h"
#include "report/page_templates.h"
#include "report/planning_report.h"
#include "run/run_cost.h"
#include "run/run_id.h"

namespace dp_bench::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using kainjow::mustache::data;

data SplitData(const run::RunFolder& run, const std::string& split) {
  const run::SplitSummary summary = run::Summarize(run.episodes, split);
  const compare::RateInterval rate = compare::WilsonInterval(summary.n_success, summary.n_episodes);
  std::vector<double> scores;
  double steps = 0.0;
  for (const run::EpisodeRecord& record : run.episodes) {
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

// Of all episodes' scores, for the colours. Tasks with penalties have scores below 0, others
// above 1.
struct ScoreScale {
  double low = 0.0;
  double high = 1.0;

  double At(double share) const { return low + share * (high - low); }
};

ScoreScale ScaleOf(const std::vector<run::EpisodeRecord>& episodes) {
  ScoreScale scale;
  if (episodes.empty()) return scale;
  const auto [least, most] = std::ranges::minmax_element(episodes, {}, &run::EpisodeRecord::score);
  scale.low = std::min(0.0, least->score);
  // without any success, rewards that are all penalties end at 0
  scale.high = most->score > 0.0 || scale.low == 0.0 ? std::max(1.0, most->score) : 0.0;
  return scale;
}

data CellData(const run::EpisodeRecord& record, const ScoreScale& scale) {
  // squared, because good policies differ in the upper range
  const double share = (record.score - scale.low) / (scale.high - scale.low);
  const double depth = std::pow(std::clamp(share, 0.0, 1.0), 2.0);
  data cell;
  cell.set("seed", std::to_string(record.seed));
  if (record.failure_reason) {
    cell.set("score", "failed");
    cell.set("style", "failed");
    cell.set("alpha", false);
    cell.set("tooltip", *record.failure_reason);
  } else {
    cell.set("score", fmt::format("{:.3f}", record.score));
    cell.set("style", fmt::format("{}{}", record.success ? "success" : "unsolved",
                                  depth > 0.5 ? " deep" : ""));
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

// "-0.120 (-0.250 to +0.010)"
std::string EffectText(const run::ArmDifference& effect) {
  const auto text = [](double value) {
    return std::isfinite(value) ? fmt::format("{:+.3f}", value) : std::string("open");
  };
  return fmt::format("{} ({} to {})", text(effect.difference), text(effect.low), text(effect.high));
}

data ArmData(const std::string& name, const run::ArmResult& result) {
  data row;
  row.set("name", name);
  row.set("href", false);
  row.set("rate", fmt::format("{} % ({} of {})", Percent(result.success_rate), result.n_success,
                              result.n_episodes));
  row.set("score", fmt::format("{:.3f}", result.mean_score));
  for (const char* effect : {"rate_effect", "score_effect", "changed"}) row.set(effect, "");
  return row;
}

data VideoData(const run::EpisodeRecord& record, const std::string& source,
               const std::string& poster) {
  data video;
  video.set("split", record.split);
  video.set("seed", std::to_string(record.seed));
  video.set("score", fmt::format("{:.3f}", record.score));
  video.set("success", record.success);
  video.set("source", source);
  video.set("poster", poster.empty() ? data(false) : data(poster));
  return video;
}

// Of what a film shows, for each hand.
data HandLegend(std::int64_t n_hands) {
  const auto css = [](const media::Colour& colour) {
    return fmt::format("rgb({},{},{})", colour[0], colour[1], colour[2]);
  };
  constexpr std::array kNames = {"the hand", "the other hand"};
  data hands = List();
  for (std::size_t i = 0; i < kNames.size() && std::cmp_less(i, n_hands); ++i) {
    const media::HandColours& colours = media::kHands[i];
    data hand;
    hand.set("hand", kNames[i]);
    hand.set("plan", css(colours.plan));
    hand.set("executed", css(colours.executed));
    hand.set("path", css(colours.path));
    hands.push_back(hand);
  }
  return hands;
}

// Returns whether there is a plane of planned paths.
bool SetFilmPlots(const run::FilmNotes& notes, double aspect, data* film) {
  const std::string plane = PlannedPathsSvg(notes, aspect);
  film->set("plane", plane.empty() ? data(false) : data(plane));
  data plots = List();
  AppendPlot(RewardPlot(notes), &plots);
  if (plane.empty()) AppendPlot(ActionPlot(notes), &plots);
  film->set("plots", plots);
  const auto success = std::ranges::find(notes.success, 1);
  const bool has_step = success != notes.success.end();
  film->set("at",
            has_step ? data(fmt::format("{}", success - notes.success.begin() + 1)) : data(false));
  return !plane.empty();
}

// The page of one run, section by section.
class RunPage {
 public:
  RunPage(const run::RunFolder& run, const HtmlReportOptions& options)
      : run_(run), options_(options) {}

  std::string Render();

 private:
  // Sets a list and whether it is not empty, which mustache needs for a heading around the list.
  void SetList(const std::string& name, const data& list);
  void SetText(const std::string& name, const std::string& text);

  void SetHead();
  void SetSplits();
  void SetArms();
  void SetPlanning();
  void SetCurves();
  void SetVideos();
  void SetNumbers();
  void SetFiles();

  data GridData(const std::string& split) const;
  data EpisodesData(bool failed_only) const;
  std::string VideoSource(const run::EpisodeRecord& record) const;
  double PictureAspect() const;

  const run::RunFolder& run_;
  const HtmlReportOptions& options_;
  data page_;
};

std::string RunPage::Render() {
  SetHead();
  SetSplits();
  SetArms();
  SetPlanning();
  SetCurves();
  SetVideos();
  SetNumbers();
  SetFiles();
  return RenderPage(kReportTemplate, page_);
}

void RunPage::SetList(const std::string& name, const data& list) {
  page_.set(name, list);
  page_.set("has_" + name, !list.is_empty_list());
}

void RunPage::SetText(const std::string& name, const std::string& text) {
  page_.set(name, text.empty() ? data(false) : data(text));
}

void RunPage::SetHead() {
  page_.set("style", kReportStyle);
  page_.set("title", run::RunTitle(run_));
  page_.set("run_name", fs::weakly_canonical(fs::absolute(run_.path)).filename().string());
}

void RunPage::SetSplits() {
  data grids = List();
  data others = List();
  page_.set("headline", false);
  for (const std::string& split : run::SplitsOf(run_)) {
    if (grids.is_empty_list()) {  // the first split is the headline
      page_.set("headline", SplitData(run_, split));
    } else {
      others.push_back(SplitData(run_, split));
    }
    grids.push_back(GridData(split));
  }
  page_.set("others", others);
  page_.set("grids", grids);
  page_.set("episodes", EpisodesData(/*failed_only=*/false));
  SetList("failed", EpisodesData(/*failed_only=*/true));
}

data RunPage::GridData(const std::string& split) const {
  const ScoreScale scale = ScaleOf(run_.episodes);
  data cells = List();
  for (const run::EpisodeRecord& record : run_.episodes) {
    if (record.split == split) cells.push_back(CellData(record, scale));
  }
  data grid;
  grid.set("split", split == "test" ? "Test" : "Train");
  grid.set("min_score", fmt::format("{:.3g}", scale.low));
  grid.set("half_score", fmt::format("{:.3g}", scale.At(0.5)));
  grid.set("max_score", fmt::format("{:.3g}", scale.high));
  grid.set("cells", cells);
  const data clusters = FailuresData(run_, split);
  grid.set("clusters", clusters);
  grid.set("has_clusters", !clusters.is_empty_list());
  return grid;
}

data RunPage::EpisodesData(bool failed_only) const {
  data episodes = List();
  for (const run::EpisodeRecord& record : run_.episodes) {
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

void RunPage::SetArms() {
  data rows = List();
  data notes = List();
  if (const std::optional<run::PerturbationEffects> effects = run_.ReadEffects()) {
    rows.push_back(ArmData("none", effects->control));
    for (const run::PerturbedArm& arm : effects->arms) {
      data row = ArmData(arm.name, arm.result);
      row.set("href", LinkTo(fs::path(arm.result.folder) / run_.report_file().filename()));
      row.set("rate_effect", EffectText(arm.success_rate));
      row.set("score_effect", EffectText(arm.score));
      row.set("changed", std::to_string(arm.n_changed));
      rows.push_back(row);
      data note;
      note.set("text", arm.note);
      if (!arm.note.empty()) notes.push_back(note);
    }
  }
  SetList("arms", rows);
  page_.set("arm_notes", notes);
}

void RunPage::SetPlanning() {
  const std::optional<run::PolicyLatencySummary> latency = run_.ReadLatency();
  page_.set("latency", latency ? LatencyData(*latency) : data(false));
  const std::optional<run::Denoising> denoising = run_.ReadDenoising();
  page_.set("denoising", denoising ? DenoisingData(*denoising) : data(false));
}

void RunPage::SetCurves() {
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
      const auto curve = run_.curves.find(key);
      if (curve != run_.curves.end()) plot.series.push_back({key, curve->second});
    }
    AppendPlot(plot, &plots);
  }
  SetList("plots", plots);
}

std::string RunPage::VideoSource(const run::EpisodeRecord& record) const {
  if (options_.embed_videos) {
    const auto bytes = run_.ReadFilmOf(record, options_.max_embedded_bytes);
    if (bytes) return "data:video/mp4;base64," + core::Base64(*bytes);
  }
  return LinkBelow(record.video);
}

// Height over width of the films, from config.json; square by default.
double RunPage::PictureAspect() const {
  constexpr double kLongest = 4.0;
  const Json config = core::TryParseJson(run_.config);
  const Json::json_pointer place("/env_runner/video_size");
  if (!config.is_object() || !config.contains(place)) return 1.0;
  const Json& size = config[place];
  if (!size.is_array() || size.size() != 2 || !size[0].is_number() || !size[1].is_number()) {
    return 1.0;
  }
  const double aspect = size[1].get<double>() / size[0].get<double>();
  return aspect > 0.0 ? std::clamp(aspect, 1.0 / kLongest, kLongest) : 1.0;
}

// Films with notes are shown with their plots.
void RunPage::SetVideos() {
  const double aspect = PictureAspect();
  constexpr int kMostPosters = 100;
  int n_posters = 0;
  bool has_planes = false;
  std::int64_t n_hands = 0;
  data films = List();
  data videos = List();
  for (const std::string& split : run::SplitsOf(run_)) {
    for (const run::EpisodeRecord& record : run_.episodes) {
      if (record.split != split) continue;
      const std::string source = VideoSource(record);
      if (source.empty()) continue;
      const std::optional<fs::path> film = run_.FilmOf(record);
      const bool has_poster = film && n_posters++ < kMostPosters;
      data video = VideoData(record, source, has_poster ? FilmPoster(*film) : "");
      if (const std::optional<run::FilmNotes> notes = run_.ReadNotesOf(record)) {
        has_planes = SetFilmPlots(*notes, aspect, &video) || has_planes;
        n_hands = std::max<std::int64_t>(n_hands, notes->n_marks);
        films.push_back(video);
      } else {
        videos.push_back(video);
      }
    }
  }
  page_.set("has_videos", !films.is_empty_list() || !videos.is_empty_list());
  page_.set("has_planes", has_planes);
  page_.set("hands", HandLegend(n_hands));
  SetList("films", films);
  page_.set("videos", videos);
}

// The keys of eval_log.json, except those per seed, which the grid shows, and file names.
void RunPage::SetNumbers() {
  data numbers = List();
  for (const auto& [key, value] : run_.eval_log.items()) {
    if (key.find("/sim_") != std::string::npos || key == run::kRunIdKey ||
        key == run::kEpisodesHashKey) {
      continue;
    }
    data row;
    row.set("key", key);
    row.set("value", value.dump(-1, ' ', false, Json::error_handler_t::replace));
    numbers.push_back(row);
  }
  SetList("numbers", numbers);
}

void RunPage::SetFiles() {
  SetText("seeds", run_.seeds && !run_.episodes.empty() ? run::SeedText(*run_.seeds) : "");
  page_.set("has_shared_seeds", run_.seeds && run_.seeds->n_shared() > 0);
  SetText("config", run_.config);
  SetText("manifest", run_.manifest);
  data notes = List();
  for (const std::string& note : run_.notes) {
    data item;
    item.set("text", note);
    notes.push_back(item);
  }
  if (const std::optional<core::Cost> cost = run_.ReadCost()) {
    data item;
    item.set("text", "The run took " + run::Describe(*cost));
    notes.push_back(item);
  }
  SetList("notes", notes);
}

}  // namespace

void WriteHtmlReport(const run::RunFolder& run, const HtmlReportOptions& options) {
  core::WriteFileAtomically(run.report_file(), std::string_view(RunPage(run, options).Render()));
}

}  // namespace dp_bench::report
