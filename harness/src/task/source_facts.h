// What a dataset says beside the keys of its steps: what copies of it keep, and what they leave
// out.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "dp_bench/dataset.h"

namespace dp_bench::task {

/// What a zarr folder of dp_bench says about each of its episodes, such as seed and success: a list
/// for each property. An empty object for other datasets.
nlohmann::json FactsOfEpisodes(const std::filesystem::path& folder, std::size_t n_episodes);

/// What such a folder says about all of its episodes, such as "failures" and "origin.env". Empty
/// for other datasets.
std::set<std::string> OtherAttributes(const std::filesystem::path& folder);

/// The files and folders in meta/ of a LeRobot dataset that are not LeRobot's own, such as
/// "meta/modality.json".
std::set<std::string> OtherMetaFiles(const std::filesystem::path& folder);

/// The features of a LeRobot dataset that no key was read from, without the columns that every
/// LeRobot dataset has.
std::set<std::string> FeaturesWithoutKey(const std::filesystem::path& folder,
                                         const Dataset& dataset);

}  // namespace dp_bench::task
