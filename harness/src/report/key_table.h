// The config reference as text and as Markdown.
#pragma once

#include <string>
#include <vector>

#include "config/key_reference.h"

namespace dp_bench::report {

/// The keys of a section for the terminal: key, type, default, meaning. Ends with a line break.
std::string KeyTable(const config::KeySection& section);

/// A Markdown page with a table per section, which also names the source file of each read.
std::string KeyPage(const std::vector<config::KeySection>& sections);

}  // namespace dp_bench::report
