// episodes.jsonl, complete or as a killed evaluation left it. An accepted file reads back
// unchanged.
#include <array>

#include "fuzz.h"
#include "run/episode_log.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  const std::array<std::string, 1> metrics = {"coverage"};
  fuzz::Accepts([&] {
    run::RunResult result = {.metric_names = {metrics[0]}};
    result.records = run::ParseEpisodes(input.text(), "episodes.jsonl", metrics);
    const std::string rows = run::EpisodesJsonl(result);
    result.records = run::ParseEpisodes(rows, "episodes.jsonl", metrics);
    DPB_ASSERT(run::EpisodesJsonl(result) == rows);
    run::EvalLogJson(result);
  });
}
