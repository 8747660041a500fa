#include "report/failure_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/failure_clusters.h"
#include "report/page_data.h"

namespace dp_bench::report {
namespace {

using kainjow::mustache::data;

const char* When(std::size_t sign) { return sign == 0 ? "earliest sign" : "then"; }

std::string ClusterText(const compare::FailureCluster& cluster) {
  std::string text = fmt::format("  {} {}: {}; median best score {:.3f}\n", cluster.episodes.size(),
                                 compare::NameOf(cluster.kind), compare::MeaningOf(cluster.kind),
                                 cluster.median_score);
  for (std::size_t i = 0; i < cluster.signs.size(); ++i) {
    text += fmt::format("    {}: {}\n", When(i), cluster.signs[i].text);
  }
  if (!cluster.note.empty()) text += fmt::format("    {}\n", cluster.note);
  return text;
}

// A word of a shell command.
std::string Quoted(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-=+").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

data SignsData(const compare::FailureCluster& cluster) {
  data signs = List();
  for (std::size_t i = 0; i < cluster.signs.size(); ++i) {
    data sign;
    sign.set("when", When(i));
    sign.set("text", cluster.signs[i].text);
    signs.push_back(sign);
  }
  return signs;
}

void SetFilms(const compare::FailureCluster& cluster, const std::filesystem::path& run_path,
              data* page) {
  data seeds = List();
  std::string commands;
  for (const run::EpisodeRecord* record : cluster.episodes) {
    const std::string link = LinkBelow(record->video);
    data seed;
    seed.set("seed", std::to_string(record->seed));
    seed.set("href", link.empty() ? data(false) : data(link));
    seeds.push_back(seed);
    if (!link.empty()) continue;
    commands += fmt::format("dp_bench replay --run {} --episode {}\n", Quoted(run_path.string()),
                            record->episode);
  }
  page->set("seeds", seeds);
  page->set("commands", commands.empty() ? data(false) : data(commands));
}

}  // namespace

std::string FailureText(std::span<const run::EpisodeRecord> records) {
  std::string text;
  for (const std::string_view split : {"train", "test"}) {
    const std::vector<compare::FailureCluster> clusters = compare::FailureClusters(records, split);
    if (clusters.empty()) continue;
    const run::SplitSummary summary = run::Summarize(records, split);
    text += fmt::format("not successful: {} of {} {} episodes\n",
                        summary.n_episodes - summary.n_success, summary.n_episodes, split);
    for (const compare::FailureCluster& cluster : clusters) text += ClusterText(cluster);
  }
  return text;
}

data FailuresData(const run::RunFolder& run, std::string_view split) {
  data clusters = List();
  for (const compare::FailureCluster& cluster : compare::FailureClusters(run.episodes, split)) {
    data row;
    row.set("name", std::string(compare::NameOf(cluster.kind)));
    row.set("meaning", std::string(compare::MeaningOf(cluster.kind)));
    row.set("n", std::to_string(cluster.episodes.size()));
    row.set("score", fmt::format("{:.3f}", cluster.median_score));
    row.set("signs", SignsData(cluster));
    row.set("note", cluster.note.empty() ? data(false) : data(cluster.note));
    SetFilms(cluster, run.path, &row);
    clusters.push_back(row);
  }
  return clusters;
}

}  // namespace dp_bench::report
