#include "compare/baseline.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/atomic_file.h"
#include "core/json.h"
#include "dp_bench/error.h"
#include "run/manifest.h"
#include "run/run_files.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "dp_bench.baseline.v1";
constexpr std::size_t kMaxBaselineBytes = std::size_t{16} << 20;

Json EpisodeJson(const run::EpisodeRecord& record) {
  return {{"seed", record.seed},
          {"success", record.success},
          {"score", record.score},
          {"failure_reason", record.failure_reason ? Json(*record.failure_reason) : Json()},
          {"trace_hash", record.trace_hash}};
}

run::EpisodeRecord RecordFrom(const core::JsonView& row, int episode) {
  run::EpisodeRecord record = {.episode = episode, .split = "test"};
  record.seed = row.Get<std::uint64_t>("seed");
  record.success = row.Get<bool>("success");
  record.score = row.Get<double>("score");
  record.trace_hash = row.Get<std::string>("trace_hash");
  record.failure_reason = row.GetOptional<std::string>("failure_reason");
  return record;
}

Json EnvPluginOf(const core::JsonView& manifest) {
  for (const core::JsonView& plugin : manifest.Elements("plugins")) {
    if (plugin.Get<std::string>("kind") == "env") return plugin.json();
  }
  return {};
}

// The settings of env_runner that affect outcomes, as far as the config has them.
Json RunnerOf(const core::JsonView& config) {
  const core::JsonView section = config.At("env_runner");
  Json runner = {{"max_steps", section.At("max_steps").json()}};
  for (const char* key : {"realtime", "realtime_latency_ms", "score_metric"}) {
    if (section.json().contains(key)) runner[key] = section.At(key).json();
  }
  return runner;
}

// A baseline without outcomes would pass every candidate, or none.
void RequireOutcomes(const run::RunFolder& run) {
  run::RequireFinished(run);
  const run::SplitSummary summary = run::Summarize(run.episodes, "test");
  if (summary.n_episodes == 0) {
    throw Error(ErrorCode::kData,
                fmt::format("{} cannot become a baseline: it has no test episodes. Give the folder "
                            "of a finished run or evaluation (dp_bench eval).",
                            run.path.string()));
  }
  if (summary.n_failed < summary.n_episodes) return;
  const auto broken = std::ranges::find_if(run.episodes, [](const run::EpisodeRecord& record) {
    return record.failure_reason.has_value();
  });
  throw Error(ErrorCode::kData,
              fmt::format("{} cannot become a baseline: all of its {} test episodes broke, the "
                          "first with: {}. Fix that and evaluate again.",
                          run.path.string(), summary.n_episodes, *broken->failure_reason));
}

// What a baseline says about the run that it comes from.
Json HeadOf(const run::RunFolder& run) {
  if (!run.seed_origin.empty()) {
    return {{"format", kFormat},
            {"title", run::RunTitle(run)},
            {"seed_origin", run.seed_origin},
            {"has_seeds", run.has_seeds},
            {"tasks", run.tasks}};
  }
  const Json config_json = core::ParseJson(run.config, run::kConfigFile);
  const Json manifest_json = core::ParseJson(run.manifest, run::kManifestFile);
  const core::JsonView config(config_json, run::kConfigFile);
  Json head = {{"format", kFormat},
               {"title", run::RunTitle(run)},
               {"config",
                {{"policy", {{"plugin", config.At("policy").At("plugin").json()}}},
                 {"env", config.At("env").json()},
                 {"env_runner", RunnerOf(config)}}},
               {"env_plugin", EnvPluginOf(core::JsonView(manifest_json, run::kManifestFile))}};
  const std::string outcome_class = run::OutcomeClassOf(run.manifest);
  if (!outcome_class.empty()) head[run::kOutcomeClassKey] = outcome_class;
  if (const auto certificate = run::DeterminismOf(run.manifest)) {
    head[run::kDeterminismKey] = run::ToJson(*certificate);
  }
  return head;
}

// The inverse, without the title.
void ReadHead(const core::JsonView& head, run::RunFolder* run) {
  if (head.Has("seed_origin")) {
    run->seed_origin = head.Get<std::string>("seed_origin");
    run->has_seeds = head.Get<bool>("has_seeds");
    run->tasks = head.Get<std::vector<std::string>>("tasks");
    return;
  }
  run->config = head.At("config").json().dump();
  Json manifest = {{"plugins", Json::array({head.At("env_plugin").json()})}};
  if (const auto outcome_class = head.GetOptional<std::string>(run::kOutcomeClassKey)) {
    manifest[run::kOutcomeClassKey] = *outcome_class;
  }
  if (head.Has(run::kDeterminismKey)) {
    manifest[run::kDeterminismKey] = head.At(run::kDeterminismKey).json();
  }
  run->manifest = manifest.dump();
}

}  // namespace

std::string BaselineJson(const run::RunFolder& run) {
  RequireOutcomes(run);
  try {
    const Json head = HeadOf(run);
    // one line per episode, so that a diff of the baseline is readable
    std::string rows;
    for (const run::EpisodeRecord& record : run.episodes) {
      if (record.split != "test") continue;
      rows += (rows.empty() ? "\n    " : ",\n    ") + EpisodeJson(record).dump();
    }
    std::string text = head.dump(2);
    text.replace(text.size() - 2, 2, ",\n  \"episodes\": [" + rows + "\n  ]\n}\n");
    return text;
  } catch (const Error& fault) {
    throw Error(ErrorCode::kData, fmt::format("{} cannot become a baseline: expected config.json "
                                              "and manifest.json of an evaluation: {}",
                                              run.path.string(), fault.what()));
  }
}

run::RunFolder ReadBaseline(const std::filesystem::path& file) {
  return ParseBaseline(core::ReadTextFile(file, kMaxBaselineBytes), file);
}

run::RunFolder ParseBaseline(std::string_view text, const std::filesystem::path& file) {
  run::RunFolder run = {.path = file};
  const std::string what = file.string() + " is not a baseline of dp_bench gate";
  const Json json = core::ParseJson(text, what);
  const core::JsonView view(json, what);
  if (view.Get<std::string>("format") != kFormat) {
    view.At("format").Fail(fmt::format("not of the format {}", kFormat));
  }
  ReadHead(view, &run);
  for (const core::JsonView& row : view.Elements("episodes")) {
    run.episodes.push_back(RecordFrom(row, static_cast<int>(run.episodes.size())));
  }
  if (run.episodes.empty()) {
    throw Error(ErrorCode::kData, fmt::format("{}: a baseline without episodes", file.string()));
  }
  return run;
}

}  // namespace dp_bench::compare
