// Each training seed is one draw. Episodes of the same policy share its luck, so the interval is
// over the seeds' rates and not over all episodes together.
#include "compare/multi_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "run/run_files.h"

namespace dp_bench::compare {
namespace {

// How much the rates of seeds scatter because each has few episodes: sqrt(p (1 - p) / n). Two
// successes and two failures more keep p off 0 and 1 (Agresti and Coull, The American Statistician
// 52 (1998) 119).
double StdDevOfEpisodes(const std::vector<SeedRun>& runs) {
  double n = 4.0;
  double n_success = 2.0;
  for (const SeedRun& run : runs) {
    n += run.test.n_episodes;
    n_success += run.test.n_success;
  }
  const double p = n_success / n;
  return std::sqrt(p * (1.0 - p) * static_cast<double>(runs.size()) / (n - 4.0));
}

MeanInterval IntervalOf(const std::vector<SeedRun>& runs, double run::SplitSummary::*metric,
                        double std_dev_if_equal = 0.0) {
  std::vector<double> values;
  for (const SeedRun& run : runs) values.push_back(run.test.*metric);
  return StudentInterval(values, kConfidence, std_dev_if_equal);
}

nlohmann::json IntervalToJson(const MeanInterval& interval) {
  nlohmann::json json = {{"mean", interval.mean}, {"n", interval.n}};
  if (interval.n < 2) return json;
  json["std"] = interval.std_dev;
  if (interval.low == interval.high) return json;  // equal values show no spread
  json["low"] = interval.low;
  json["high"] = interval.high;
  return json;
}

}  // namespace

std::string SeedFolder(std::uint64_t seed) { return fmt::format("seed_{}", seed); }

MultiRun ReadMultiRun(const std::filesystem::path& folder,
                      const std::vector<std::uint64_t>& seeds) {
  MultiRun result = {.path = folder};
  for (const std::uint64_t seed : seeds) {
    SeedRun run = {.seed = seed, .folder = SeedFolder(seed)};
    run.files = run::ReadRunFolder(folder / run.folder);
    run.test = run::Summarize(run.files.episodes, "test");
    if (run.test.n_episodes == 0) {
      throw DataError(
          "'{}' has no test episodes; was env_runner.n_test 0, or is its evaluation missing?",
          (folder / run.folder).string());
    }
    result.runs.push_back(std::move(run));
  }
  result.success_rate =
      IntervalOf(result.runs, &run::SplitSummary::success_rate, StdDevOfEpisodes(result.runs));
  result.success_rate.low = std::max(0.0, result.success_rate.low);
  result.success_rate.high = std::min(1.0, result.success_rate.high);
  result.mean_score = IntervalOf(result.runs, &run::SplitSummary::mean_score);
  return result;
}

std::filesystem::path MultiRun::report_file() const { return path / run::kReportFile; }

nlohmann::json ToJson(const MultiRun& multi_run) {
  nlohmann::json json = {{"seeds", nlohmann::json::array()}, {"runs", nlohmann::json::array()}};
  for (const SeedRun& run : multi_run.runs) {
    json["seeds"].push_back(run.seed);
    json["runs"].push_back({{"seed", run.seed},
                            {"folder", run.folder},
                            {"n_episodes", run.test.n_episodes},
                            {"n_success", run.test.n_success},
                            {"n_failed", run.test.n_failed},
                            {"test/success_rate", run.test.success_rate},
                            {"test/mean_score", run.test.mean_score}});
  }
  json["test/success_rate"] = IntervalToJson(multi_run.success_rate);
  json["test/mean_score"] = IntervalToJson(multi_run.mean_score);
  return json;
}

}  // namespace dp_bench::compare
