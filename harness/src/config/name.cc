#include "config/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/console.h"
#include "core/errors.h"

namespace dp_bench::config {

namespace {

constexpr std::size_t kMaxNameLength = 100;

// Independent of the locale.
bool IsNameCharacter(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_back(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], two_back[j - 2] + 1);
      }
    }
    std::swap(two_back, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

}  // namespace

const std::string& RequireName(const std::string& name, std::string_view where) {
  const bool is_name = !name.empty() && name.size() <= kMaxNameLength && name.front() != '.' &&
                       std::ranges::all_of(name, IsNameCharacter);
  if (is_name) return name;
  throw ConfigError(
      "{}: expected a name of 1 to {} letters, digits, '_', '-' and '.', without a '.' in front, "
      "because it becomes a part of paths; found '{}'{}",
      where, kMaxNameLength, core::Printable(name.substr(0, kMaxNameLength)),
      name.size() > kMaxNameLength
          ? fmt::format(" and {} more characters", name.size() - kMaxNameLength)
          : "");
}

std::optional<std::string> NearestName(std::string_view name,
                                       const std::vector<std::string>& candidates) {
  constexpr std::size_t kMaxLength = 200;  // longer names are not typing errors, and the cost grows
  if (name.size() > kMaxLength) return std::nullopt;
  std::optional<std::string> nearest;
  // up to half of the name may be wrong, but at least two letters ("n_epochs" for "num_epochs")
  std::size_t limit = std::max<std::size_t>(2, name.size() / 2);
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kMaxLength) continue;
    const std::size_t distance = EditDistance(name, candidate);
    if (distance > limit || distance >= std::max(name.size(), candidate.size())) continue;
    if (nearest && distance == limit) continue;  // keep the first of equals
    nearest = candidate;
    limit = distance;
  }
  return nearest;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const auto nearest = NearestName(name, candidates);
  return nearest ? fmt::format(" (did you mean '{}'?)", *nearest) : "";
}

}  // namespace dp_bench::config
