// The file in which dp_bench notes, in a LeRobot data set that it wrote, which keys the features
// were put together from. LeRobot ignores it.
#pragma once

namespace dp_bench::lerobot {

/// {"keys": <as in dataset.params.keys>}, relative to the data set.
inline constexpr const char* kKeySourcesFile = "meta/dp_bench.json";

}  // namespace dp_bench::lerobot
