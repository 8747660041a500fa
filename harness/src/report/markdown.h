// Text from files inside Markdown.
#pragma once

#include <string>
#include <string_view>

namespace dp_bench::report {

/// The text such that Markdown shows it as it is, on one line: in a paragraph and in the cell of a
/// table.
std::string EscapeMarkdown(std::string_view text);

}  // namespace dp_bench::report
