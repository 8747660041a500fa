// The texts of a run folder, with a NUL in between: episodes.jsonl, eval_log.json, logs.json.txt,
// config.json, manifest.json and denoising.json.
#include "fuzz.h"
#include "report/run_folder.h"
#include "rollout/denoising.h"
#include "rollout/run_result.h"
#include "rollout/seed_use.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] {
    RunFolderTexts texts = {.episodes = std::string(input.TakeText()),
                            .eval_log = std::string(input.TakeText()),
                            .log = std::string(input.TakeText()),
                            .config = std::string(input.TakeText()),
                            .manifest = std::string(input.TakeText())};
    const RunFolder folder = ParseRunFolder("run", std::move(texts));
    RunTitle(folder);
    for (const std::string& split : SplitsOf(folder)) Summarize(folder.episodes, split);
    if (const auto seeds = SeedUseOf(folder.manifest)) SeedText(*seeds);
  });
  fuzz::Accepts([&] { ToJson(ParseDenoising(input.text(), "denoising.json")); });
}
