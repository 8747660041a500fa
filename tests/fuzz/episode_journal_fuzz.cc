// episodes.jsonl, whole or as a killed evaluation left it; what is accepted reads back as it was.
#include <array>

#include "fuzz.h"
#include "rollout/episode_log.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  const std::array<std::string, 1> metrics = {"coverage"};
  fuzz::Accepts([&] {
    RunResult result = {.metric_names = {metrics[0]}};
    result.records = ParseEpisodes(input.text(), "episodes.jsonl", metrics);
    const std::string rows = EpisodesJsonl(result);
    result.records = ParseEpisodes(rows, "episodes.jsonl", metrics);
    DPB_ASSERT(EpisodesJsonl(result) == rows);
    EvalLogJson(result);
  });
}
