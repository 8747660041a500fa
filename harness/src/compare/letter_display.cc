#include "compare/letter_display.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "dp_bench/error.h"

namespace dp_bench::compare {
namespace {

using Column = std::vector<bool>;  // which runs have this letter

bool IsWithin(const Column& inner, const Column& outer) {
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] && !outer[i]) return false;
  }
  return true;
}

// A column that adds nothing is absorbed by one that contains it.
void InsertAndAbsorb(const Column& column, std::vector<Column>* columns) {
  for (const Column& other : *columns) {
    if (IsWithin(column, other)) return;
  }
  std::erase_if(*columns, [&](const Column& other) { return IsWithin(other, column); });
  columns->push_back(column);
}

// A column with both runs becomes two columns, each without one of them.
std::vector<Column> Separated(const std::vector<Column>& columns, std::size_t a, std::size_t b) {
  std::vector<Column> separated;
  for (const Column& column : columns) {
    if (!(column[a] && column[b])) separated.push_back(column);
  }
  for (const Column& column : columns) {
    if (!(column[a] && column[b])) continue;
    for (const std::size_t removed : {a, b}) {
      Column part = column;
      part[removed] = false;
      InsertAndAbsorb(part, &separated);
    }
  }
  return separated;
}

std::string Letter(std::size_t index) {
  if (index < 26) return std::string(1, static_cast<char>('a' + index));
  return fmt::format("({})", index + 1);
}

}  // namespace

std::vector<std::string> LetterDisplay(
    std::size_t n, std::span<const std::pair<std::size_t, std::size_t>> different) {
  std::vector<Column> columns = {Column(n, true)};
  for (const auto& [a, b] : different) {
    DPB_ASSERT(a < n && b < n && a != b);
    columns = Separated(columns, a, b);
  }
  // columns that begin with the first runs come first
  std::ranges::sort(columns, std::greater<>());
  std::vector<std::string> letters(n);
  for (std::size_t column = 0; column < columns.size(); ++column) {
    for (std::size_t run = 0; run < n; ++run) {
      if (columns[column][run]) letters[run] += Letter(column);
    }
  }
  return letters;
}

}  // namespace dp_bench::compare
