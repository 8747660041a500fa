// See keys.txt.mustache and config_reference.md.mustache.
#include "report/key_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "report/render.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;

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

// A cell of a Markdown table that keeps its code spans.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

// `in_markdown`: the texts are cells.
Json SectionJson(const config::KeySection& section, bool in_markdown) {
  Json keys = Json::array();
  for (const config::KeyRead& key : section.keys) {
    const auto text = [in_markdown](const std::string& plain) {
      return in_markdown ? Cell(plain) : plain;
    };
    keys.push_back({{"key", key.pointer},
                    {"type", text(TypeText(key))},
                    {"default", key.default_value},
                    {"is_code", key.default_value != "required" && key.default_value != "none"},
                    {"meaning", text(key.meaning)},
                    {"source", SourcePath(key.reader)},
                    {"file", std::filesystem::path(key.reader).filename().string()}});
  }
  return {{"name", section.name}, {"meaning", section.meaning}, {"keys", keys}};
}

}  // namespace

std::string KeyTable(const config::KeySection& section) {
  return Render("keys.txt", SectionJson(section, /*in_markdown=*/false));
}

std::string KeyPage(const std::vector<config::KeySection>& sections) {
  Json page = {{"sections", Json::array()}};
  for (const config::KeySection& section : sections) {
    page["sections"].push_back(SectionJson(section, /*in_markdown=*/true));
  }
  return Render("config_reference.md", page);
}

}  // namespace dp_bench::report
