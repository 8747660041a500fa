#include "task/source_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/atomic_file.h"
#include "core/json.h"
#include "data/replay_writer.h"
#include "data/zarr/metadata.h"

namespace dp_bench::task {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json FactsOfEpisodes(const fs::path& folder, std::size_t n_episodes) {
  const Json attributes = data::ReadReplayAttributes(folder);
  Json facts = Json::object();
  if (attributes.is_null()) return facts;
  const Json said = core::ValueAt(attributes, fmt::format("/{}", zarr::kEpisodesAttribute));
  for (const auto& [property, values] : said.items()) {
    // an interrupted commit leaves more
    if (values.is_array() && values.size() >= n_episodes) facts[property] = values;
  }
  return facts;
}

std::set<std::string> OtherAttributes(const fs::path& folder) {
  // what the copy says too, or says anew
  constexpr std::array<std::string_view, 6> kKept = {zarr::kFpsAttribute,
                                                     zarr::kCompleteAttribute,
                                                     zarr::kTasksAttribute,
                                                     zarr::kEpisodesAttribute,
                                                     "n_steps",
                                                     "dp_bench"};
  const Json attributes = data::ReadReplayAttributes(folder);
  std::set<std::string> others;
  for (const auto& [name, value] : attributes.items()) {
    if (name == "origin" && value.is_object()) {
      for (const auto& [part, unused] : value.items()) {
        if (part != "source") others.insert(fmt::format("origin.{}", part));
      }
    } else if (!value.empty() && std::ranges::find(kKept, name) == kKept.end()) {
      others.insert(name);
    }
  }
  return others;
}

std::set<std::string> OtherMetaFiles(const fs::path& folder) {
  constexpr std::array<std::string_view, 8> kOwn = {
      "info.json",      "stats.json", "tasks.jsonl",          "tasks.parquet",
      "episodes.jsonl", "episodes",   "episodes_stats.jsonl", "dp_bench.json"};
  std::set<std::string> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "meta")) {
    const std::string name = entry.path().filename().string();
    if (core::IsTemporaryName(name) || std::ranges::find(kOwn, name) != kOwn.end()) continue;
    others.insert("meta/" + name);
  }
  return others;
}

std::set<std::string> FeaturesWithoutKey(const fs::path& path, const Dataset& dataset) {
  constexpr std::size_t kMaxInfo = std::size_t{64} << 20;
  const Json info = core::ReadJsonFile(path / "meta/info.json", kMaxInfo);
  const Json entries = core::ValueAt(info, "/features");
  std::set<std::string> features;
  for (const auto& [name, entry] : entries.items()) features.insert(name);
  for (const char* const own :
       {"timestamp", "frame_index", "episode_index", "index", "task_index"}) {
    features.erase(own);
  }
  for (int key = 0; key < static_cast<int>(dataset.spec().keys.size()); ++key) {
    features.erase(dataset.FeatureName(key));
  }
  return features;
}

}  // namespace dp_bench::task
