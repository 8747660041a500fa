// The statistics of single episodes that meta/ of a LeRobot data set has. They are those of the
// pictures before they were encoded, which a copy of the video cannot give.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/lerobot/metadata.h"
#include "data/lerobot/statistics.h"

namespace dp_bench::lerobot {

/// By feature and episode, of those of the cameras `features` of which meta/ has all statistics,
/// with quantiles, for all episodes. LeRobot 0.3 and older write no quantiles. `max_bytes` bounds
/// the memory for each table. Throws Error{kData} or Error{kIo} naming the file if it cannot be
/// read at all.
std::map<std::string, std::vector<FeatureStatistics>> ReadEpisodeStatistics(
    const Metadata& metadata, const std::vector<std::string>& features, std::int64_t max_bytes);

}  // namespace dp_bench::lerobot
