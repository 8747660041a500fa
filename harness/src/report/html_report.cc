// For the layout see report.html.mustache and multi_run.html.mustache.
#include "report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/json.h"
#include "core/median.h"
#include "dp_bench/error.h"
#include "media/png.h"
#include "media/video_frames.h"
#include "media/video_overlay.h"
#include "report/evaluation_text.h"
#include "report/good_practice.h"
#include "report/render.h"
#include "report/success_over_time.h"
#include "report/video_plots.h"
#include "run/manifest.h"
#include "run/run_cost.h"
#include "run/run_files.h"

namespace dp_bench::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The headline of a split: more about its scores than SplitJson.
Json HeadlineJson(const run::RunFolder& run, const std::string& split) {
  Json headline = SplitJson(run.episodes, split);
  std::vector<double> scores;
  for (const run::EpisodeRecord& record : run.episodes) {
    if (record.split == split) scores.push_back(record.score);
  }
  headline["median_score"] = core::Median(scores);
  headline["min_score"] = std::ranges::min(scores);
  headline["mean_steps"] = headline["n_steps"].get<double>() / static_cast<double>(scores.size());
  const Json metric = core::ValueAt(core::TryParseJson(run.config), "/env_runner/score_metric");
  headline["score_metric"] = metric.is_string() ? metric : Json();
  if (headline["n_failed"] == 0) headline["n_failed"] = nullptr;
  if (Json& over_time = headline["over_time"]; !over_time.is_null()) {
    LinePlot plot = SuccessOverTimePlot();
    AddSuccessCurve(over_time, split, &plot);
    over_time["plots"] = Json::array();
    AppendPlot(plot, &over_time["plots"]);
  }
  return headline;
}

// More of them would make the page slow.
constexpr std::size_t kMostEpisodes = 5000;

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

Json CellJson(const run::EpisodeRecord& record, const ScoreScale& scale) {
  // squared, because good policies differ in the upper range
  const double share = (record.score - scale.low) / (scale.high - scale.low);
  const double depth = std::pow(std::clamp(share, 0.0, 1.0), 2.0);
  Json cell = {{"seed", record.seed}, {"href", LinkBelow(record.video)}};
  if (record.failure_reason) {
    cell["score"] = "failed";
    cell["style"] = "failed";
    cell["alpha"] = nullptr;
    cell["tooltip"] = *record.failure_reason;
    return cell;
  }
  cell["score"] = fmt::format("{:.3f}", record.score);
  cell["style"] =
      fmt::format("{}{}", record.success ? "success" : "unsolved", depth > 0.5 ? " deep" : "");
  cell["alpha"] = 0.08 + 0.85 * depth;
  cell["tooltip"] =
      fmt::format("{} seed {}: score {:.4f}, {}, {} steps", record.split, record.seed, record.score,
                  record.success ? "success" : "no success", record.n_steps);
  return cell;
}

// Means of squares of pixels; at most about `width` wide.
RgbImage ShrunkTo(const RgbImage& image, int width) {
  const int side = std::max(1, (image.width + width - 1) / width);
  RgbImage small(image.width / side, image.height / side);
  for (std::size_t i = 0; i < small.pixels.size(); ++i) {
    const auto at = static_cast<int>(i);
    const int x = at / 3 % small.width * side;
    const int y = at / 3 / small.width * side;
    int sum = 0;
    for (int dy = 0; dy < side; ++dy) {
      for (int dx = 0; dx < side; ++dx) {
        sum +=
            image.pixels[static_cast<std::size_t>(3 * ((y + dy) * image.width + x + dx) + at % 3)];
      }
    }
    small.pixels[i] = static_cast<std::uint8_t>(sum / (side * side));
  }
  return small;
}

// Of what a video shows, for each hand.
Json HandLegend(std::int64_t n_hands) {
  const auto css = [](const media::Colour& colour) {
    return fmt::format("rgb({},{},{})", colour[0], colour[1], colour[2]);
  };
  constexpr std::array kNames = {"the hand", "the other hand"};
  Json hands = Json::array();
  for (std::size_t i = 0; i < kNames.size() && std::cmp_less(i, n_hands); ++i) {
    const media::HandColours& colours = media::kHands[i];
    hands.push_back({{"hand", kNames[i]},
                     {"plan", css(colours.plan)},
                     {"executed", css(colours.executed)},
                     {"path", css(colours.path)}});
  }
  return hands;
}

void SetVideoPlots(const run::VideoNotes& notes, double aspect, Json* video) {
  const std::string plane = PlannedPathsSvg(notes, aspect);
  Json plots = Json::array();
  AppendPlot(RewardPlot(notes), &plots);
  if (plane.empty()) AppendPlot(ActionPlot(notes), &plots);
  const auto success = std::ranges::find(notes.success, 1);
  (*video)["plane"] = plane;
  (*video)["plots"] = plots;
  (*video)["at"] =
      success == notes.success.end() ? Json() : Json(success - notes.success.begin() + 1);
}

// Adds a curve of the log, if the run has it.
void AddCurve(const run::RunFolder& run, const std::string& key, const std::string& label,
              LinePlot* plot) {
  const auto curve = run.curves.find(key);
  if (curve != run.curves.end()) plot->series.push_back({label, curve->second});
}

// The page of one run, section by section.
class RunPage {
 public:
  explicit RunPage(const run::RunFolder& run) : run_(run) {}

  std::string Render() {
    page_["title"] = run::RunTitle(run_);
    page_["run_name"] = fs::weakly_canonical(fs::absolute(run_.path)).filename().string();
    SetSplits();
    if (const auto effects = run_.ReadEffects()) {
      page_.update(EffectsJson(*effects));
      for (Json& arm : page_["arms"]) {
        const std::string folder = arm["folder"];
        arm["href"] =
            folder.empty() ? "" : LinkTo(fs::path(folder) / run_.report_file().filename());
      }
    }
    if (const auto latency = run_.ReadLatency()) page_["latency"] = LatencyJson(*latency);
    if (auto verification = run_.ReadVerification())
      page_["verification"] = *std::move(verification);
    SetCurves();
    SetVideos();
    SetNumbers();
    page_["practice"] = PracticeJson(run_);
    SetFiles();
    return report::Render("report.html", page_);
  }

 private:
  void SetSplits() {
    page_["others"] = Json::array();
    page_["grids"] = Json::array();
    for (const std::string& split : run::SplitsOf(run_)) {
      if (page_["grids"].empty()) {  // the first split is the headline
        page_["headline"] = HeadlineJson(run_, split);
      } else {
        page_["others"].push_back(SplitJson(run_.episodes, split));
      }
      page_["grids"].push_back(GridJson(split));
    }
    page_["episodes"] = EpisodesJson();
    page_["any_failed"] = std::ranges::any_of(run_.episodes, &run::EpisodeRecord::has_failed);
  }

  void SetCurves() {
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
    Json plots = Json::array();
    for (const Choice& choice : choices) {
      LinePlot plot{.title = choice.title, .log_y = choice.log_y, .unit_range = choice.unit_range};
      for (const std::string& key : choice.keys) AddCurve(run_, key, key, &plot);
      AppendPlot(plot, &plots);
    }
    page_["curves"] = {{"plots", plots}};
    page_["has_curves"] = !plots.empty();
  }

  // Videos with notes are shown with their plots.
  void SetVideos() {
    constexpr int kMostPosters = 100;
    const double aspect = ImageAspect();
    int n_posters = 0;
    std::int64_t n_hands = 0;
    Json with_notes = Json::array();
    Json videos = Json::array();
    for (const std::string& split : run::SplitsOf(run_)) {
      for (const run::EpisodeRecord& record : run_.episodes) {
        if (record.split != split) continue;
        const std::string source = LinkBelow(record.video);
        if (source.empty()) continue;
        const std::optional<fs::path> file = run_.VideoOf(record);
        const bool has_poster = file && n_posters++ < kMostPosters;
        Json video = {{"split", record.split}, {"seed", record.seed},
                      {"score", record.score}, {"success", record.success},
                      {"source", source},      {"poster", has_poster ? VideoPoster(*file) : ""}};
        if (const std::optional<run::VideoNotes> notes = run_.ReadNotesOf(record)) {
          SetVideoPlots(*notes, aspect, &video);
          n_hands = std::max<std::int64_t>(n_hands, notes->n_marks);
          with_notes.push_back(std::move(video));
        } else {
          videos.push_back(std::move(video));
        }
      }
    }
    page_["any_video"] = !with_notes.empty() || !videos.empty();
    page_["any_plane"] =
        std::ranges::any_of(with_notes, [](const Json& video) { return video["plane"] != ""; });
    page_["hands"] = HandLegend(n_hands);
    page_["videos_with_notes"] = std::move(with_notes);
    page_["videos"] = std::move(videos);
  }

  // The keys of eval_log.json, except those per seed, which the grid shows, and file names.
  void SetNumbers() {
    page_["numbers"] = Json::array();
    for (const auto& [key, value] : run_.eval_log.items()) {
      if (key.find("/sim_") != std::string::npos || key == run::kRunIdKey ||
          key == run::kEpisodesHashKey) {
        continue;
      }
      page_["numbers"].push_back(
          {{"key", key}, {"value", value.dump(-1, ' ', false, Json::error_handler_t::replace)}});
    }
  }

  void SetFiles() {
    page_["seeds"] = run_.seeds && !run_.episodes.empty() ? run::SeedText(*run_.seeds) : "";
    page_["has_shared_seeds"] =
        run_.seeds && (run_.seeds->n_shared() > 0 || run_.seeds->n_demonstrated() > 0);
    page_["config"] = run_.config;
    page_["manifest"] = run_.manifest;
    page_["notes"] = run_.notes;
    if (run_.episodes.size() > kMostEpisodes) {
      page_["notes"].push_back(
          fmt::format("The page lists {} of {} episodes, and those that failed; {} has all.",
                      kMostEpisodes, run_.episodes.size(), run::kEpisodesFile));
    }
    if (const std::optional<core::Cost> cost = run_.ReadCost()) {
      page_["notes"].push_back("The run took " + run::Describe(*cost));
    }
  }

  Json GridJson(const std::string& split) const {
    const ScoreScale scale = ScaleOf(run_.episodes);
    Json cells = Json::array();
    for (const run::EpisodeRecord& record : run_.episodes) {
      if (cells.size() == kMostEpisodes) break;
      if (record.split == split) cells.push_back(CellJson(record, scale));
    }
    return {{"split", split == "test" ? "Test" : "Train"},
            {"min_score", scale.low},
            {"half_score", scale.At(0.5)},
            {"max_score", scale.high},
            {"cells", cells},
            {"clusters", FailuresJson(run_.episodes, split, run_.path.string())}};
  }

  Json EpisodesJson() const {
    Json episodes = Json::array();
    for (const run::EpisodeRecord& record : run_.episodes) {
      if (episodes.size() >= kMostEpisodes && !record.failure_reason) continue;
      if (episodes.size() >= 2 * kMostEpisodes) break;
      episodes.push_back({{"split", record.split},
                          {"seed", record.seed},
                          {"score", record.score},
                          {"success", record.success ? "yes" : "no"},
                          {"n_steps", record.n_steps},
                          {"trace_hash", record.trace_hash.substr(0, 16)},
                          {"reason", record.failure_reason.value_or("")}});
    }
    return episodes;
  }

  // Height over width of the videos, from config.json; square by default.
  double ImageAspect() const {
    constexpr double kLongest = 4.0;
    const Json size = core::ValueAt(core::TryParseJson(run_.config), "/env_runner/video_size");
    if (!size.is_array() || size.size() != 2 || !size[0].is_number() || !size[1].is_number()) {
      return 1.0;
    }
    const double aspect = size[1].get<double>() / size[0].get<double>();
    return aspect > 0.0 ? std::clamp(aspect, 1.0 / kLongest, kLongest) : 1.0;
  }

  const run::RunFolder& run_;
  Json page_;
};

Json SeedCurves(const compare::MultiRun& multi_run) {
  Json plots = Json::array();
  for (const auto& [title, key] :
       {std::pair("Success rate", "test/success_rate"), std::pair("Mean score", "test/mean_score"),
        std::pair("Loss", "train_loss")}) {
    const bool is_loss = std::string_view(key) == "train_loss";
    LinePlot plot = {.title = title, .log_y = is_loss, .unit_range = !is_loss};
    for (const compare::SeedRun& run : multi_run.runs) {
      AddCurve(run.files, key, fmt::format("seed {}", run.seed), &plot);
    }
    AppendPlot(plot, &plots);
  }
  return plots;
}

// What the text and the page show of compare::ToJson, with short names.
Json ShownJson(const compare::MultiRun& multi_run) {
  const Json json = ToJson(multi_run);
  Json shown = {{"title", run::RunTitle(multi_run.runs.front().files)},
                {"success_rate", json["test/success_rate"]},
                {"score", json["test/mean_score"]},
                {"has_spread", multi_run.success_rate.n > 1},
                {"runs", Json::array()}};
  for (const compare::SeedRun& run : multi_run.runs) {
    shown["runs"].push_back(SplitJson(run.files.episodes, "test"));
    shown["runs"].back()["seed"] = run.seed;
    shown["runs"].back()["folder"] = run.folder;
  }
  return shown;
}

}  // namespace

std::string VideoPoster(const std::filesystem::path& video) {
  constexpr int kWidth = 320;  // [px]
  try {
    media::VideoReader reader(video);
    RgbImage frame(reader.width(), reader.height());
    if (!reader.Read(&frame)) return "";
    return DataUrl("image/png", media::EncodePng(ShrunkTo(frame, kWidth)));
  } catch (const Error&) {  // the page shows that the video is missing
    return "";
  }
}

std::string MultiRunTable(const compare::MultiRun& multi_run) {
  return Render("multi_run.txt", ShownJson(multi_run));
}

void WriteMultiRunReport(const compare::MultiRun& multi_run) {
  Json page = ShownJson(multi_run);
  page["plots"] = SeedCurves(multi_run);
  core::WriteFileAtomically(multi_run.report_file(), Render("multi_run.html", page));
}

void WriteHtmlReport(const run::RunFolder& run) {
  core::WriteFileAtomically(run.report_file(), RunPage(run).Render());
}

}  // namespace dp_bench::report
