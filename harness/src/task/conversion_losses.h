// What a copy of a dataset loses, of which its writer knows nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>

#include "dp_bench/dataset.h"
#include "dp_bench/spec.h"

namespace dp_bench::task {

/// The key as it is written: `format` may hold depth only in millimetres.
KeySpec KeyAsWritten(const KeySpec& key, const std::string& format);

/// float32 metres become uint16 millimetres, in the first half of `images`. Each is the nearest
/// one; NaN and what is not above 0 become 0, which is no measurement, and 65535 is the highest.
void ToMillimetres(std::span<std::byte> images);

/// The features of a LeRobot dataset that no key was read from, without the columns that every
/// LeRobot dataset has.
std::set<std::string> FeaturesWithoutKey(const std::filesystem::path& path, const Dataset& dataset);

}  // namespace dp_bench::task
