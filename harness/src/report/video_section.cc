#include "report/video_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "core/atomic_file.h"
#include "core/base64.h"
#include "core/json.h"
#include "report/film_plots.h"
#include "report/link.h"
#include "report/page_data.h"
#include "run/film_notes.h"

namespace dp_bench::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using kainjow::mustache::data;

std::string VideoSource(const run::RunFolder& folder, const run::EpisodeRecord& record,
                        const HtmlReportOptions& options) {
  std::string link = LinkBelow(record.video);
  const fs::path file = folder.path / record.video;
  std::error_code fault;
  const auto size = fs::file_size(file, fault);
  if (!options.embed_videos || link.empty() || fault || size > options.max_embedded_bytes) {
    return link;
  }
  return "data:video/mp4;base64," +
         core::Base64(core::ReadTextFile(file, options.max_embedded_bytes));
}

// Height over width of the films, as config.json has it; films are square by default.
double PictureAspect(const run::RunFolder& folder) {
  constexpr double kLongest = 4.0;
  const Json config = core::TryParseJson(folder.config);
  const Json::json_pointer place("/env_runner/video_size");
  if (!config.is_object() || !config.contains(place)) return 1.0;
  const Json& size = config[place];
  if (!size.is_array() || size.size() != 2 || !size[0].is_number() || !size[1].is_number()) {
    return 1.0;
  }
  const double aspect = size[1].get<double>() / size[0].get<double>();
  return aspect > 0.0 ? std::clamp(aspect, 1.0 / kLongest, kLongest) : 1.0;
}

data VideoData(const run::EpisodeRecord& record, const std::string& source) {
  data video;
  video.set("split", record.split);
  video.set("seed", std::to_string(record.seed));
  video.set("score", fmt::format("{:.3f}", record.score));
  video.set("success", record.success);
  video.set("source", source);
  return video;
}

// Whether the picture's plane is among them.
bool SetPlots(const run::FilmNotes& notes, double aspect, data* film) {
  const std::string plane = PlannedPathsSvg(notes, aspect);
  film->set("plane", plane.empty() ? data(false) : data(plane));
  data plots(data::type::list);
  AppendPlot(RewardPlot(notes), &plots);
  if (plane.empty()) AppendPlot(ActionPlot(notes), &plots);
  film->set("plots", plots);
  const auto success = std::ranges::find(notes.success, 1);
  const bool has_step = success != notes.success.end();
  film->set("at",
            has_step ? data(fmt::format("{}", success - notes.success.begin() + 1)) : data(false));
  return !plane.empty();
}

}  // namespace

void SetVideos(const run::RunFolder& folder, const HtmlReportOptions& options, data* page) {
  const double aspect = PictureAspect(folder);
  bool has_planes = false;
  data films(data::type::list);
  data videos(data::type::list);
  for (const std::string& split : run::SplitsOf(folder)) {
    for (const run::EpisodeRecord& record : folder.episodes) {
      if (record.split != split) continue;
      const std::string source = VideoSource(folder, record, options);
      if (source.empty()) continue;
      data video = VideoData(record, source);
      const fs::path notes =
          (folder.path / record.video).lexically_normal().replace_extension(".safetensors");
      if (fs::is_regular_file(notes)) {
        has_planes = SetPlots(run::ReadFilmNotes(notes), aspect, &video) || has_planes;
        films.push_back(video);
      } else {
        videos.push_back(video);
      }
    }
  }
  page->set("has_videos", !films.is_empty_list() || !videos.is_empty_list());
  page->set("has_planes", has_planes);
  page->set("has_films", !films.is_empty_list());
  page->set("films", films);
  page->set("videos", videos);
}

}  // namespace dp_bench::report
