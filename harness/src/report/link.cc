#include "report/link.h"

#include <fmt/format.h>

#include <string_view>

namespace dp_bench::report {

std::string LinkTo(const std::filesystem::path& relative_path) {
  std::string link = "./";
  for (const char c : relative_path.generic_string()) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("/._-=").find(c) != std::string_view::npos;
    link += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return link;
}

bool StaysBelow(const std::string& relative_path) {
  const std::filesystem::path path = std::filesystem::path(relative_path).lexically_normal();
  return !relative_path.empty() && !path.is_absolute() && *path.begin() != "..";
}

std::string LinkBelow(const std::string& relative_path) {
  if (!StaysBelow(relative_path)) return "";
  return LinkTo(std::filesystem::path(relative_path).lexically_normal());
}

}  // namespace dp_bench::report
