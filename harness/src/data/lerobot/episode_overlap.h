// Episodes of a LeRobot data set that have rows or pictures in common.
#pragma once

#include <string>

#include "data/lerobot/metadata.h"

namespace dp_bench::lerobot {

/// Checks that the episodes follow one another without gaps, if the files say at which rows they
/// begin, and that no episode begins inside another one in a video. LeRobot would read frames of
/// the other episode there. Throws Error{kData} beginning with `where` that names episode and
/// frame.
void RequireSeparateEpisodes(const std::string& where, const Metadata& metadata);

}  // namespace dp_bench::lerobot
