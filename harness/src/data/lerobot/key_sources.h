// Which keys the features of a LeRobot data set were put together from: the file in which dp_bench
// notes it in a data set that it wrote, and which LeRobot ignores. And what keys cannot take over.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/lerobot/metadata.h"
#include "dp_bench/config.h"

namespace dp_bench::lerobot {

/// {"keys": <as in dataset.params.keys>}, relative to the data set.
inline constexpr const char* kKeySourcesFile = "meta/dp_bench.json";

/// The value of "keys"; none if the data set at `root` has no such file. Throws Error{kData} or
/// Error{kIo} if it is damaged.
std::optional<Config> ReadKeySources(const std::filesystem::path& root);

/// Logs what keys do not have of these features: names that are no channels, transparency.
void WarnOfOmissions(const Metadata& metadata, const std::vector<std::string>& features);

}  // namespace dp_bench::lerobot
