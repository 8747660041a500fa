// The texts of a run folder, with a NUL in between: episodes.jsonl, eval_log.json, logs.json.txt,
// config.json, manifest.json, and one of what pages alone show.
#include <nlohmann/json.hpp>
#include <string>

#include "fuzz.h"
#include "run/episode_record.h"
#include "run/manifest.h"
#include "run/perturbation_effects.h"
#include "run/planning.h"
#include "run/run_files.h"
#include "run/run_folder.h"
#include "scratch.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  static const fuzz::Scratch scratch;
  for (const std::string_view file : {run::kEpisodesFile, run::kEvalLogFile, run::kTrainingLogFile,
                                      run::kConfigFile, run::kManifestFile}) {
    scratch.Put(file, input.TakeText());
  }
  fuzz::Accepts([&] {
    const run::RunFolder folder = run::ReadRunFolder(scratch.path());
    run::RunTitle(folder);
    for (const std::string& split : run::SplitsOf(folder)) run::Summarize(folder.episodes, split);
    if (const auto seeds = run::SeedUseOf(folder.manifest)) run::SeedText(*seeds);
  });
  const std::string last(input.text());
  fuzz::Accepts([&] { run::ToJson(run::ParseLatency(last, "latency.json")); });
  fuzz::Accepts([&] { run::ParseEffects(last, "perturbations.json"); });
}
