// For what they look like see published.txt.mustache, real_rate.txt.mustache and
// allocation.txt.mustache.
#include "report/compare_answers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/shell.h"
#include "report/render.h"

namespace dp_bench::report {

std::string PublishedText(const compare::PublishedCheck& check, std::size_t n_runs) {
  nlohmann::json shown = compare::ToJson(check);
  shown["is_exact"] = check.published.n == 0;
  shown["n_runs"] = n_runs > 1 ? nlohmann::json(n_runs) : nlohmann::json();
  shown["is_credible"] = check.is_credible();
  shown["side"] = check.difference.difference > 0.0 ? "lower" : "higher";
  return Render("published.txt", shown);
}

std::string RealRateText(const compare::RealRate& rate) {
  nlohmann::json shown = rate;
  shown["n_paired"] = rate.counts.n();
  if (rate.n_unpaired == 0) shown["n_unpaired"] = nullptr;
  return Render("real_rate.txt", shown);
}

std::string AllocationText(nlohmann::json allocation, const compare::SuiteTable& table,
                           const compare::SuiteRanking& ranking) {
  constexpr std::size_t kMostCommands = 20;
  nlohmann::json commands = nlohmann::json::array();
  std::size_t n_commands = 0;
  for (nlohmann::json& policy : allocation["policies"]) {
    policy["rivals"] =
        fmt::format("{}", fmt::join(policy["rivals"].get<std::vector<std::string>>(), ", "));
    for (const nlohmann::json& cell : policy["cells"]) {
      if (cell["folder"] == "" || n_commands++ >= kMostCommands) continue;
      commands.push_back(fmt::format("dp_bench eval --resume {} env_runner.n_test={}",
                                     core::ShellWord(cell["folder"].get<std::string>()),
                                     cell["n_test"].get<int>()));
    }
  }
  allocation["commands"] = std::move(commands);
  allocation["n_more_commands"] =
      n_commands > kMostCommands ? nlohmann::json(n_commands - kMostCommands) : nlohmann::json();
  // a policy that lacks cells has no letters, and gets nothing
  allocation["is_decided"] =
      std::ranges::all_of(ranking.pairs, [&](const compare::SuitePair& pair) {
        return pair.ranked.is_different ||
               ranking.PlaceOf(table.policies[pair.ranked.a]) == nullptr ||
               ranking.PlaceOf(table.policies[pair.ranked.b]) == nullptr;
      });
  return Render("allocation.txt", allocation);
}

}  // namespace dp_bench::report
