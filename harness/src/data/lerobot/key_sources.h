// The file in which dp_bench notes, in a LeRobot data set that it wrote, which keys the features
// were put together from. LeRobot ignores it.
#pragma once

#include <filesystem>
#include <optional>

#include "dp_bench/config.h"

namespace dp_bench::lerobot {

/// {"keys": <as in dataset.params.keys>}, relative to the data set.
inline constexpr const char* kKeySourcesFile = "meta/dp_bench.json";

/// The value of "keys"; none if the data set at `root` has no such file. Throws Error{kData} or
/// Error{kIo} if it is damaged.
std::optional<Config> ReadKeySources(const std::filesystem::path& root);

}  // namespace dp_bench::lerobot
