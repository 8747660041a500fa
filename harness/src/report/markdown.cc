// The characters: CommonMark 2.4 (backslash escapes) and GitHub's tables, which end a cell at '|'.
#include "report/markdown.h"

#include "core/console.h"

namespace dp_bench::report {

std::string EscapeMarkdown(std::string_view text) {
  constexpr std::string_view kSpecial = "\\`*_{}[]#|~";
  std::string escaped;
  for (const char c : core::Printable(text)) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (c == '\n' || c == '\t') {
      escaped += ' ';
    } else {
      if (kSpecial.find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace dp_bench::report
