#include "data/zarr/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/console.h"

namespace dp_bench::zarr {

void TellUser(std::string_view message) { core::LogInfo(message); }
void WarnUser(std::string_view message) { core::LogWarning(message); }

std::string ListFirst(std::span<const std::string> texts) {
  constexpr std::size_t kMaxListed = 20;
  const std::size_t n = std::min(texts.size(), kMaxListed);
  const std::string listed = fmt::format("{}", fmt::join(texts.first(n), "; "));
  return texts.size() == n ? listed : fmt::format("{}; and {} more", listed, texts.size() - n);
}

}  // namespace dp_bench::zarr
