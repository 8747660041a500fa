// For what they look like see suite.*.mustache.
#include "report/suite_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "compare/suite_ranking.h"
#include "core/json.h"
#include "core/output_file.h"
#include "core/progress.h"
#include "report/render.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;

template <class T, class Fits>
const T* Find(const std::vector<T>& list, const Fits& fits) {
  const auto found = std::ranges::find_if(list, fits);
  return found == list.end() ? nullptr : &*found;
}

// Letters and ranks; null for a policy without a place.
Json PlaceJson(const compare::SuitePlace* place) {
  if (place == nullptr) return {};
  return {{"letters", place->letters},
          {"best", place->rank.best},
          {"worst", place->rank.worst},
          {"ranks", compare::RankText(place->rank)}};
}

Json RateJson(const compare::SuiteTable& table, const SuiteExtras& extras,
              const compare::SuiteRanking& ranking, const compare::SuiteRate* rate,
              const std::string& policy, const std::string& task) {
  Json json = {{"policy", policy}, {"task", task}, {"is_there", rate != nullptr}};
  if (rate == nullptr) return json;
  json["place"] = PlaceJson(ranking.PlaceOf(policy, task));
  json.update(Json(rate->any_time));
  json["at_end"] = rate->at_end ? Json(rate->at_end->rate) : Json();
  int n_failed = 0;
  for (const compare::SuiteCell* cell : compare::CellsOf(table, policy, task)) {
    n_failed += cell->n_failed;
    const std::string report = cell->folder + "/report.html";
    if (!json.contains("report")) json["report"] = LinkBelow(report);
    const auto video = extras.videos.find(cell->folder);
    if (video != extras.videos.end() && !json.contains("video")) {
      json["video"] = LinkBelow(video->second);
    }
  }
  json["n_failed"] = n_failed > 0 ? Json(n_failed) : Json();
  json["n_policy_faults"] = rate->n_policy_faults > 0 ? Json(rate->n_policy_faults) : Json();
  json["without_faults"] = core::OrNull(rate->without_faults);
  json["is_part"] = rate->is_part;
  return json;
}

Json MeanJson(const compare::SuiteMean* mean) {
  if (mean == nullptr) return {{"is_there", false}};
  return {{"is_there", true},
          {"mean", mean->mean},
          {"low", mean->low},
          {"high", mean->high},
          {"at_end", core::OrNull(mean->at_end)},
          {"n_tasks", mean->n_tasks},
          {"n_wanted", mean->n_wanted},
          {"is_part", mean->is_part}};
}

// What the cells of a policy took; nothing if no folder says it.
Json CostJson(const compare::SuiteTable& table, const SuiteExtras& extras,
              const std::string& policy) {
  double cpu_s = 0.0;
  int n = 0;
  for (const compare::SuiteCell& cell : table.cells) {
    const auto cost = extras.costs.find(cell.folder);
    if (cell.policy != policy || cost == extras.costs.end()) continue;
    cpu_s += cost->second.cpu_s;
    const auto training = extras.training_cpu_s.find(cell.folder);
    if (training != extras.training_cpu_s.end()) cpu_s += training->second;
    ++n;
  }
  if (n == 0) return {};
  return {{"cpu_per_cell", core::FormatDuration(cpu_s / n)}};
}

Json PolicyRows(const compare::SuiteTable& table, const SuiteExtras& extras,
                const compare::SuiteRanking& ranking, const std::vector<std::string>& groups) {
  const std::vector<compare::SuiteMean> means = compare::MeansOf(table);
  Json rows = Json::array();
  for (const std::string& policy : table.policies) {
    const auto mean_of = [&](const std::optional<std::string>& group) {
      return MeanJson(Find(means, [&](const compare::SuiteMean& mean) {
        return mean.policy == policy && mean.group == group;
      }));
    };
    Json row = {{"name", policy},
                {"all", mean_of(std::nullopt)},
                {"groups", Json::array()},
                {"cost", CostJson(table, extras, policy)},
                {"place", PlaceJson(ranking.PlaceOf(policy))}};
    for (const std::string& group : groups) {
      row["groups"].push_back(mean_of(group));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json ExpertJson(const compare::SuiteTable& table, const std::string& task) {
  const auto* const expert =
      Find(table.experts, [&](const compare::SuiteExpert& each) { return each.task == task; });
  if (expert == nullptr || expert->n == 0) return {};
  return {{"n_success", expert->n_success},
          {"n", expert->n},
          {"rate", static_cast<double>(expert->n_success) / expert->n}};
}

// Over the tasks of a group, or of all, that have an expert; null without one.
Json ExpertMean(const compare::SuiteTable& table, const std::optional<std::string>& group) {
  double sum = 0.0;
  int n = 0;
  for (const compare::SuiteTaskName& task : table.tasks) {
    if (group && task.group != *group) continue;
    const Json expert = ExpertJson(table, task.name);
    if (expert.is_null()) continue;
    sum += expert.at("rate").get<double>();
    ++n;
  }
  return n == 0 ? Json() : Json(sum / n);
}

Json TaskRows(const compare::SuiteTable& table, const SuiteExtras& extras,
              const compare::SuiteRanking& ranking, const std::vector<compare::SuiteRate>& rates,
              const std::string& group) {
  Json rows = Json::array();
  for (const compare::SuiteTaskName& task : table.tasks) {
    if (task.group != group) continue;
    Json row = {{"name", task.name},
                {"group", group},
                {"expert", ExpertJson(table, task.name)},
                {"cells", Json::array()}};
    for (const std::string& policy : table.policies) {
      const auto* const rate = Find(rates, compare::IsOf(policy, task.name));
      row["cells"].push_back(RateJson(table, extras, ranking, rate, policy, task.name));
    }
    row["has_video"] =
        std::ranges::any_of(row["cells"], [](const Json& cell) { return cell.contains("video"); });
    rows.push_back(std::move(row));
  }
  return rows;
}

Json PairRows(const compare::SuiteTable& table, const compare::SuiteRanking& ranking) {
  constexpr double kMostShown = 700.0;                   // exp of more is infinite
  Json rows = compare::ToJson(table, ranking)["pairs"];  // in the order of ranking.pairs
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const compare::PairEvidence& evidence = ranking.pairs[i].ranked.evidence;
    const double log_evidence = std::max(evidence.log_a_better, evidence.log_b_better);
    rows[i]["evidence"] = std::exp(std::min(log_evidence, kMostShown));
  }
  return rows;
}

Json ShownJson(const compare::SuiteTable& table, const SuiteExtras& extras) {
  std::vector<std::string> groups = compare::GroupsOf(table);
  const compare::SuiteRanking ranking = compare::RankingOf(table);
  const std::vector<compare::SuiteRate> rates = compare::RatesOf(table);
  int n_broken = 0;
  for (const compare::SuiteCell& cell : table.cells) n_broken += cell.n_failed;
  Json shown = {{"title", table.name},
                {"policies", Json::array()},
                {"groups", Json::array()},
                {"pairs", PairRows(table, ranking)},
                {"failed", extras.failed},
                {"n_seeds", table.seeds.size()},
                {"has_seeds", table.seeds.size() > 1},
                {"n_tasks", table.tasks.size()},
                {"n_cells", table.cells.size()},
                {"n_missing", table.missing.empty() ? Json() : Json(table.missing.size())},
                {"has_letters", !ranking.places.empty()},
                {"is_part", !table.missing.empty()},
                {"budget", extras.round ? compare::ToJson(*extras.round, table) : Json()},
                {"expert", ExpertMean(table, std::nullopt)},
                {"has_end", std::ranges::any_of(table.cells,
                                                [](const compare::SuiteCell& cell) {
                                                  return !cell.successes_at_end.empty();
                                                })},
                {"has_faults", std::ranges::any_of(table.cells,
                                                   [](const compare::SuiteCell& cell) {
                                                     return cell.n_policy_faults > 0;
                                                   })},
                {"n_broken", n_broken > 0 ? Json(n_broken) : Json()},
                {"has_costs", !extras.costs.empty()}};
  for (const std::string& group : groups) {
    const Json expert = ExpertMean(table, group);
    shown["groups"].push_back({{"name", group},
                               {"has_expert", !expert.is_null()},
                               {"expert", expert},
                               {"tasks", TaskRows(table, extras, ranking, rates, group)}});
  }
  shown["has_videos"] = std::ranges::any_of(shown["groups"], [](const Json& group) {
    return std::ranges::any_of(group["tasks"],
                               [](const Json& task) { return task["has_video"].get<bool>(); });
  });
  const bool is_grouped = groups.size() > 1;
  if (!is_grouped) groups.clear();  // the same as all tasks
  shown["is_grouped"] = is_grouped;
  shown["policies"] = PolicyRows(table, extras, ranking, groups);
  for (Json& group : shown["groups"]) {
    group["means"] = Json::array();
    const auto index = static_cast<std::size_t>(&group - &shown["groups"][0]);
    for (const Json& policy : shown["policies"]) {
      group["means"].push_back(is_grouped ? policy["groups"][index] : policy["all"]);
    }
  }
  return shown;
}

}  // namespace

std::string SuiteText(const compare::SuiteTable& table, const SuiteExtras& extras) {
  return Render("suite.txt", ShownJson(table, extras));
}

void WriteSuitePages(const compare::SuiteTable& table, const SuiteExtras& extras,
                     const std::filesystem::path& folder) {
  const Json shown = ShownJson(table, extras);
  for (const char* name : {"suite.md", "suite.csv", "suite.tex", "suite.html"}) {
    core::WriteOutput(folder / name, Render(name, shown));
  }
}

}  // namespace dp_bench::report
