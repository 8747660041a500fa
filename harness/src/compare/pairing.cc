#include "compare/pairing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/errors.h"
#include "core/json.h"
#include "core/list_some.h"
#include "run/foreign_result.h"
#include "run/manifest.h"
#include "run/run_files.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

// null if the file does not exist
Json Parsed(const run::RunFolder& folder, std::string_view file, const std::string& text) {
  return text.empty() ? Json() : core::ParseJson(text, (folder.path / file).string());
}

Json ConfigOf(const run::RunFolder& folder) {
  return Parsed(folder, run::kConfigFile, folder.config);
}

Json EnvOf(const Json& config) { return core::ValueAt(run::WithoutMachineKeys(config), "/env"); }

// The manifest's entry of the plugin of this kind; null if there is none.
Json PluginOf(const run::RunFolder& folder, const char* kind) {
  const Json plugins =
      core::ValueAt(Parsed(folder, run::kManifestFile, folder.manifest), "/plugins");
  if (!plugins.is_array()) return {};
  for (const Json& plugin : plugins) {
    if (plugin.is_object() && plugin.value("kind", Json()) == kind) return plugin;
  }
  return {};
}

// "/params/task" -> "env.params.task"
std::string DottedName(const std::string& section, std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return section + pointer;
}

void CompareLeaves(const std::string& section, const Json& a, const Json& b,
                   std::vector<Mismatch>* mismatches) {
  const Json in_a = a.flatten();
  const Json in_b = b.flatten();
  std::set<std::string> places;
  for (const Json& flat : {in_a, in_b}) {
    for (const auto& [place, value] : flat.items()) places.insert(place);
  }
  const auto text = [](const Json& flat, const std::string& place) {
    return flat.contains(place) ? flat[place].dump() : "absent";
  };
  for (const std::string& place : places) {
    if (text(in_a, place) == text(in_b, place)) continue;
    mismatches->push_back({DottedName(section, place), text(in_a, place), text(in_b, place)});
  }
}

// How long a plan takes in simulated time [ms]; 0 in old configs that did not have the setting.
double SimulatedLatency(const Json& config) {
  const Json realtime = core::ValueAt(config, "/env_runner/realtime");
  const Json latency = core::ValueAt(config, "/env_runner/realtime_latency_ms");
  if (!latency.is_number()) return 0.0;
  if (realtime.is_boolean()) return realtime.get<bool>() ? latency.get<double>() : 0.0;
  return realtime.is_number() ? realtime.get<double>() * latency.get<double>() : 0.0;
}

// The control steps of a plan, and their distribution where there is one; see
// control/chunking_config.h.
Json PlanDelay(const Json& config) {
  const Json delay = core::ValueAt(config, "/env_runner/chunking/delay");
  return delay.is_number() ? delay : Json(0);
}
Json PlanLatency(const Json& config) {
  const Json latency = core::ValueAt(config, "/env_runner/chunking/latency");
  return core::ValueAt(latency, "/distribution").is_string() &&
                 core::ValueAt(latency, "/distribution") != "none"
             ? latency
             : Json();
}

std::set<std::uint64_t> TestSeeds(const run::RunFolder& folder) {
  std::set<std::uint64_t> seeds;
  for (const run::EpisodeRecord& record : folder.episodes) {
    if (record.split == "test") seeds.insert(record.seed);
  }
  return seeds;
}

std::string Describe(const std::set<std::uint64_t>& seeds) {
  if (seeds.empty()) return "none";
  return fmt::format("{} from {} to {}", seeds.size(), *seeds.begin(), *seeds.rbegin());
}

using RecordBySeed = std::map<std::uint64_t, const run::EpisodeRecord*>;

RecordBySeed IndexSplit(std::span<const run::EpisodeRecord> records, std::string_view split,
                        std::string_view run) {
  RecordBySeed by_seed;
  for (const run::EpisodeRecord& record : records) {
    if (record.split != split) continue;
    if (by_seed.emplace(record.seed, &record).second) continue;
    throw DataError(
        "the {} run has two {} episodes of seed {}; episodes are paired by seed, so each may occur "
        "once: remove one row of episodes.jsonl, or evaluate again",
        run, split, record.seed);
  }
  return by_seed;
}

}  // namespace

std::vector<Mismatch> FindTaskMismatches(const run::RunFolder& a, const run::RunFolder& b) {
  std::vector<Mismatch> mismatches;
  const Json config_a = ConfigOf(a);
  const Json config_b = ConfigOf(b);
  const auto compare = [&](const char* name, const auto& value_of) {
    CompareLeaves(name, value_of(config_a), value_of(config_b), &mismatches);
  };
  const auto at = [](const char* pointer) {
    return [pointer](const Json& config) { return core::ValueAt(config, pointer); };
  };
  if (!config_a.is_null() && !config_b.is_null()) {
    compare("env.plugin", at("/env/plugin"));
    // the parameters of two different envs cannot be compared
    if (!mismatches.empty()) return mismatches;
    compare("env", EnvOf);
    compare("env_runner.max_steps", at("/env_runner/max_steps"));
    compare("env_runner.score_metric", at("/env_runner/score_metric"));
    compare("simulated latency [ms]", SimulatedLatency);
    compare("env_runner.chunking.delay", PlanDelay);
    compare("env_runner.chunking.latency", PlanLatency);
  }
  const Json plugin_a = PluginOf(a, "env");
  const Json plugin_b = PluginOf(b, "env");
  if (!plugin_a.is_null() && !plugin_b.is_null()) {
    CompareLeaves("env plugin version", core::ValueAt(plugin_a, "/version"),
                  core::ValueAt(plugin_b, "/version"), &mismatches);
  }
  if (!a.tasks.empty() && !b.tasks.empty() && a.tasks != b.tasks) {
    mismatches.push_back({"tasks", fmt::format("{}", fmt::join(a.tasks, ", ")),
                          fmt::format("{}", fmt::join(b.tasks, ", "))});
  }
  return mismatches;
}

std::string EnvVersionOf(const run::RunFolder& folder) {
  return core::TextAt(PluginOf(folder, "env"), "/version");
}

void AssumeSameSeeds(std::vector<run::RunFolder>* folders) {
  for (run::RunFolder& folder : *folders) {
    folder.seed_origin = "one source";
    folder.has_seeds = true;
  }
}

std::string WhyOtherTasks(const run::RunFolder& a, const run::RunFolder& b) {
  constexpr std::size_t kListed = 5;
  if (a.tasks == b.tasks || std::max(a.tasks.size(), b.tasks.size()) < 2) return "";
  const auto tasks = [](const run::RunFolder& folder) {
    return folder.tasks.empty() ? "no names of tasks"
                                : "the tasks " + core::ListSome(folder.tasks, kListed);
  };
  return fmt::format("{} has {}, {} has {}", a.path.string(), tasks(a), b.path.string(), tasks(b));
}

std::string WhyUnpaired(const run::RunFolder& a, const run::RunFolder& b) {
  for (const run::RunFolder* folder : {&a, &b}) {
    if (!folder->has_seeds) {
      return fmt::format("{} has no seeds ({} wrote it)", folder->path.string(),
                         folder->seed_origin);
    }
  }
  for (const run::RunFolder* folder : {&a, &b}) {
    const auto certificate = run::DeterminismOf(folder->manifest);
    if (certificate && certificate->difference) {
      return fmt::format("{}: {}", folder->path.string(), run::Describe(*certificate));
    }
  }
  if (a.seed_origin == b.seed_origin) return WhyOtherTasks(a, b);
  const auto name = [](const run::RunFolder& folder) {
    return folder.seed_origin.empty() ? std::string("dp_bench") : folder.seed_origin;
  };
  return fmt::format("the seeds of {} are from {}, those of {} from {}", a.path.string(), name(a),
                     b.path.string(), name(b));
}

std::vector<Mismatch> FindMismatches(const run::RunFolder& a, const run::RunFolder& b) {
  std::vector<Mismatch> mismatches = FindTaskMismatches(a, b);
  if (!WhyUnpaired(a, b).empty()) return mismatches;
  const auto seeds_a = TestSeeds(a);
  const auto seeds_b = TestSeeds(b);
  const bool share_some =
      std::ranges::any_of(seeds_a, [&](std::uint64_t seed) { return seeds_b.contains(seed); });
  if (!share_some) {
    mismatches.push_back({"the list of test seeds", Describe(seeds_a), Describe(seeds_b)});
  }
  return mismatches;
}

std::vector<std::string> ComparabilityNotes(const run::RunFolder& a, const run::RunFolder& b) {
  std::vector<std::string> notes;
  for (const run::RunFolder* folder : {&a, &b}) {
    if (ConfigOf(*folder).is_null()) {
      notes.push_back(fmt::format("{} has no config.json, so env and task cannot be compared",
                                  folder->path.string()));
    }
  }
  for (const char* kind : {"env", "policy"}) {
    const Json plugin_a = PluginOf(a, kind);
    const Json plugin_b = PluginOf(b, kind);
    const bool is_one_plugin = !plugin_a.is_null() && !plugin_b.is_null() &&
                               core::ValueAt(plugin_a, "/name") == core::ValueAt(plugin_b, "/name");
    if (is_one_plugin && core::ValueAt(plugin_a, "/sha256") != core::ValueAt(plugin_b, "/sha256")) {
      notes.push_back(fmt::format("{} and {} ran different builds of the {} plugin",
                                  a.path.string(), b.path.string(), kind));
    }
  }
  return notes;
}

void PairCounts::Add(bool a_succeeded, bool b_succeeded) {
  if (a_succeeded) {
    ++(b_succeeded ? both_succeed : only_a);
  } else {
    ++(b_succeeded ? only_b : neither);
  }
}

void PairCounts::Add(const PairCounts& others) {
  both_succeed += others.both_succeed;
  only_a += others.only_a;
  only_b += others.only_b;
  neither += others.neither;
}

PairedOutcomes PairBySeed(std::span<const run::EpisodeRecord> a,
                          std::span<const run::EpisodeRecord> b, std::string_view split) {
  const RecordBySeed in_a = IndexSplit(a, split, "first");
  const RecordBySeed in_b = IndexSplit(b, split, "second");
  PairedOutcomes outcomes;
  for (const run::EpisodeRecord& record : a) {
    if (record.split != split) continue;
    const auto other = in_b.find(record.seed);
    if (other == in_b.end()) {
      outcomes.only_in_a.push_back(record.seed);
      continue;
    }
    outcomes.pairs.push_back({.a = record, .b = *other->second});
    outcomes.counts.Add(record.success, other->second->success);
  }
  for (const run::EpisodeRecord& record : b) {
    if (record.split == split && !in_a.contains(record.seed)) {
      outcomes.only_in_b.push_back(record.seed);
    }
  }
  return outcomes;
}

void RequireDistinctSeeds(const run::RunFolder& run) {
  try {
    IndexSplit(run.episodes, "test", "first");
  } catch (Error& fault) {
    const bool is_ours = run.seed_origin.empty();
    fault.AddContext("in " + (is_ours ? run.path / run::kEpisodesFile : run.path).string());
    throw;
  }
}

std::uint64_t TaskOf(const run::RunFolder& run, const run::EpisodeRecord& record) {
  return run.tasks.size() > 1 ? record.seed / run::kSeedsPerTask : 0;
}

std::vector<run::EpisodeRecord> InTurns(const run::RunFolder& run) {
  std::vector<run::EpisodeRecord> episodes;
  std::map<std::uint64_t, std::uint64_t> n_seen;  // by task
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (const run::EpisodeRecord& record : run.episodes) {
    if (record.split != "test") continue;
    order.emplace_back(n_seen[TaskOf(run, record)]++, episodes.size());
    episodes.push_back(record);
  }
  std::ranges::sort(order);
  std::vector<run::EpisodeRecord> in_turns;
  for (const auto& [turn, i] : order) in_turns.push_back(std::move(episodes[i]));
  return in_turns;
}

PairedOutcomes PairInOrder(const run::RunFolder& a, const run::RunFolder& b) {
  const bool is_by_task = a.tasks == b.tasks;
  const auto numbered = [&](const run::RunFolder& run) {
    std::vector<run::EpisodeRecord> episodes = InTurns(run);
    std::map<std::uint64_t, std::uint64_t> n_seen;  // by task
    for (run::EpisodeRecord& record : episodes) {
      const std::uint64_t task = is_by_task ? TaskOf(run, record) : 0;
      record.seed = task * run::kSeedsPerTask + n_seen[task]++;
    }
    return episodes;
  };
  return PairBySeed(numbered(a), numbered(b));
}

std::vector<double> ScoreDifferences(const PairedOutcomes& outcomes) {
  std::vector<double> differences;
  for (const EpisodePair& pair : outcomes.pairs) {
    differences.push_back(pair.b.score - pair.a.score);
  }
  return differences;
}

std::string PolicyFaultsText(const run::SplitSummary& summary) {
  if (summary.n_policy_faults == 0) return "";
  return fmt::format(
      ". Its policy's server was the reason for {}; {} of the other {} were successful",
      summary.n_policy_faults, summary.n_success, summary.n_episodes - summary.n_policy_faults);
}

}  // namespace dp_bench::compare
