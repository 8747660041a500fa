#include "config/name.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/console.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

constexpr std::size_t kMaxNameLength = 100;

// Whatever the locale says.
bool IsNameCharacter(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

}  // namespace

const std::string& RequireName(const std::string& name, std::string_view where) {
  const bool is_name = !name.empty() && name.size() <= kMaxNameLength && name.front() != '.' &&
                       std::ranges::all_of(name, IsNameCharacter);
  if (is_name) return name;
  throw Error(
      ErrorCode::kConfig,
      fmt::format("{}: wanted a name of 1 to {} letters, digits, '_', '-' and '.', without a "
                  "'.' in front, because it becomes a part of paths; found '{}'{}",
                  where, kMaxNameLength, Printable(name.substr(0, kMaxNameLength)),
                  name.size() > kMaxNameLength
                      ? fmt::format(" and {} more characters", name.size() - kMaxNameLength)
                      : ""));
}

}  // namespace dp_bench
