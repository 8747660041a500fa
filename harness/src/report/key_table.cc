#include "report/key_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace dp_bench::report {
namespace {

constexpr std::string_view kPageHead = R"(# Config reference

Every key of a config, with its type, its default, its meaning and the source file that reads it.
`dp_bench keys --markdown > docs/config_reference.md` writes this page from the code that reads the
keys: change the text there. `dp_bench keys SECTION` prints a section, with the params of your own
plugins too. [guide/config.md](guide/config.md) explains how the keys work together.

- **required**: the config must give the key. **none**: without the key, or with null, the feature is
  off or the meaning says what happens.
- Any value may be a reference to another key, such as `"${horizon}"`
  ([guide/config.md](guide/config.md#references-and-arithmetic)).
- `<name>` stands for a name that the config chooses, such as a key of `shape_meta`; `[]` for each
  element of a list.
)";

std::string TypeText(const config::KeyRead& key) {
  if (!key.choices.empty()) return fmt::format("one of {}", fmt::join(key.choices, ", "));
  return key.range.empty() ? key.type : fmt::format("{}, {}", key.type, key.range);
}

// The path relative to the source tree.
std::string SourcePath(const std::string& file) {
  for (const std::string_view root : {"/harness/", "/plugins/"}) {
    const std::size_t place = file.rfind(root);
    if (place != std::string::npos) return file.substr(place + 1);
  }
  return file;
}

std::string SourceLink(const std::string& file) {
  if (file.empty()) return "";
  return fmt::format("[{}](../{})", std::filesystem::path(file).filename().string(),
                     SourcePath(file));
}

// Keeps code spans; escapes all other Markdown.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string DefaultCell(const std::string& value) {
  return value == "required" || value == "none" ? value : fmt::format("`{}`", value);
}

}  // namespace

std::string KeyTable(const config::KeySection& section) {
  std::size_t key_width = 0;
  std::size_t type_width = 0;
  std::size_t default_width = 0;
  for (const config::KeyRead& key : section.keys) {
    key_width = std::max(key_width, key.pointer.size());
    type_width = std::max(type_width, TypeText(key).size());
    default_width = std::max(default_width, key.default_value.size());
  }
  std::string table = fmt::format("{}: {}\n", section.name, section.meaning);
  for (const config::KeyRead& key : section.keys) {
    table += fmt::format("  {:<{}}  {:<{}}  {:<{}}  {}\n", key.pointer, key_width, TypeText(key),
                         type_width, key.default_value, default_width, key.meaning);
  }
  return table;
}

std::string KeyPage(const std::vector<config::KeySection>& sections) {
  std::string page(kPageHead);
  for (const config::KeySection& section : sections) {
    page += fmt::format("\n## {}\n\n{}\n", section.name, section.meaning);
    if (section.keys.empty()) continue;
    page += "\n| key | type | default | meaning | read in |\n|---|---|---|---|---|\n";
    for (const config::KeyRead& key : section.keys) {
      page +=
          fmt::format("| `{}` | {} | {} | {} | {} |\n", key.pointer, Cell(TypeText(key)),
                      DefaultCell(key.default_value), Cell(key.meaning), SourceLink(key.reader));
    }
  }
  return page;
}

}  // namespace dp_bench::report
