#include "compare/baseline.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/atomic_file.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "dp_bench.baseline.v1";
constexpr std::size_t kMaxBaselineBytes = std::size_t{16} << 20;

Json EpisodeJson(const EpisodeRecord& record) {
  return {{"seed", record.seed},
          {"success", record.success},
          {"score", record.score},
          {"failure_reason", record.failure_reason ? Json(*record.failure_reason) : Json()},
          {"trace_hash", record.trace_hash}};
}

EpisodeRecord RecordFrom(const Json& row, int episode) {
  EpisodeRecord record = {.episode = episode, .split = "test"};
  row.at("seed").get_to(record.seed);
  row.at("success").get_to(record.success);
  row.at("score").get_to(record.score);
  row.at("trace_hash").get_to(record.trace_hash);
  if (!row.at("failure_reason").is_null()) {
    record.failure_reason = row["failure_reason"].get<std::string>();
  }
  return record;
}

Json EnvPluginOf(const Json& manifest) {
  for (const Json& plugin : manifest.at("plugins")) {
    if (plugin.at("kind") == "env") return plugin;
  }
  return {};
}

// What of env_runner decides about outcomes, as far as the config has it.
Json RunnerOf(const Json& config) {
  const Json& section = config.at("env_runner");
  Json runner = {{"max_steps", section.at("max_steps")}};
  for (const char* key : {"realtime", "realtime_latency_ms"}) {
    if (section.contains(key)) runner[key] = section[key];
  }
  return runner;
}

// A baseline without an outcome would let every candidate through, or none.
void RequireOutcomes(const RunFolder& run) {
  RequireFinished(run);
  const SplitSummary summary = Summarize(run.episodes, "test");
  if (summary.n_episodes == 0) {
    throw Error(ErrorCode::kData,
                fmt::format("{} cannot become a baseline: it has no test episodes. Wanted is the "
                            "folder of a finished run or evaluation (dp_bench eval).",
                            run.path.string()));
  }
  if (summary.n_failed < summary.n_episodes) return;
  const auto broken = std::ranges::find_if(
      run.episodes, [](const EpisodeRecord& record) { return record.failure_reason.has_value(); });
  throw Error(ErrorCode::kData,
              fmt::format("{} cannot become a baseline: all of its {} test episodes broke, the "
                          "first with: {}. Evaluate again when that is repaired.",
                          run.path.string(), summary.n_episodes, *broken->failure_reason));
}

}  // namespace

std::string BaselineJson(const RunFolder& run) {
  RequireOutcomes(run);
  try {
    const Json config = Json::parse(run.config);
    Json head = {{"format", kFormat},
                 {"title", RunTitle(run)},
                 {"config",
                  {{"policy", {{"plugin", config.at("/policy/plugin"_json_pointer)}}},
                   {"env", config.at("env")},
                   {"env_runner", RunnerOf(config)}}},
                 {"env_plugin", EnvPluginOf(Json::parse(run.manifest))}};
    // a line per episode, so that a change of the baseline can be read as a diff
    std::string rows;
    for (const EpisodeRecord& record : run.episodes) {
      if (record.split != "test") continue;
      rows += (rows.empty() ? "\n    " : ",\n    ") + EpisodeJson(record).dump();
    }
    std::string text = head.dump(2);
    text.replace(text.size() - 2, 2, ",\n  \"episodes\": [" + rows + "\n  ]\n}\n");
    return text;
  } catch (const Json::exception& fault) {
    throw Error(ErrorCode::kData,
                fmt::format("{} cannot become a baseline, which needs config.json and "
                            "manifest.json of an evaluation: {}",
                            run.path.string(), fault.what()));
  }
}

RunFolder ReadBaseline(const std::filesystem::path& file) {
  RunFolder run = {.path = file};
  try {
    const Json json = Json::parse(ReadTextFile(file, kMaxBaselineBytes));
    if (json.at("format") != kFormat) {
      throw Error(ErrorCode::kData,
                  fmt::format("{} is not of the format {}", file.string(), kFormat));
    }
    run.config = json.at("config").dump();
    run.manifest = Json{{"plugins", Json::array({json.at("env_plugin")})}}.dump();
    for (const Json& row : json.at("episodes")) {
      run.episodes.push_back(RecordFrom(row, static_cast<int>(run.episodes.size())));
    }
  } catch (const Json::exception& fault) {
    throw Error(ErrorCode::kData, fmt::format("{} is not a baseline of dp_bench gate: {}",
                                              file.string(), fault.what()));
  }
  if (run.episodes.empty()) {
    throw Error(ErrorCode::kData, fmt::format("{}: a baseline without episodes", file.string()));
  }
  return run;
}

}  // namespace dp_bench
