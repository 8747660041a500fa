// The texts of a run folder, with a NUL in between: episodes.jsonl, eval_log.json, logs.json.txt,
// config.json, manifest.json, and one of what pages alone show.
#include <nlohmann/json.hpp>
#include <string>

#include "fuzz.h"
#include "run/episode_record.h"
#include "run/manifest.h"
#include "run/planning.h"
#include "run/run_folder.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] {
    run::RunFolderTexts texts = {.episodes = std::string(input.TakeText()),
                                 .eval_log = std::string(input.TakeText()),
                                 .log = std::string(input.TakeText()),
                                 .config = std::string(input.TakeText()),
                                 .manifest = std::string(input.TakeText())};
    const run::RunFolder folder = run::ParseRunFolder("run", std::move(texts));
    run::RunTitle(folder);
    for (const std::string& split : run::SplitsOf(folder)) run::Summarize(folder.episodes, split);
    if (const auto seeds = run::SeedUseOf(folder.manifest)) run::SeedText(*seeds);
  });
  const std::string last(input.text());
  fuzz::Accepts([&] { run::ToJson(run::ParseLatency(last, "latency.json")); });
  fuzz::Accepts([&] { run::ParseEffects(last, "perturbations.json"); });
}
