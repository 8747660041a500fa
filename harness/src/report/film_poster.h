// The image that stands for a film on a page.
#pragma once

#include <filesystem>
#include <string>

namespace dp_bench::report {

/// The film's first frame as a data URL, which a browser shows until the film is played: it may not
/// know the codec, or load nothing before. Empty if the film cannot be read.
std::string FilmPoster(const std::filesystem::path& film);

}  // namespace dp_bench::report
