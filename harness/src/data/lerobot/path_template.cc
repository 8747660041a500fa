// See path_template.h.
#include "data/lerobot/path_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>

#include "core/json.h"
#include "data/zarr/store.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

constexpr std::size_t kMaxPath = 4096;
constexpr std::array<std::string_view, 5> kFields = {"chunk_index", "episode_chunk", "file_index",
                                                     "episode_index", "video_key"};

bool IsDigits(std::string_view text) {
  return text.size() <= 2 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

PathTemplate::PathTemplate(std::string_view text, const std::string& where) : text_(text) {
  const auto refuse = [&](std::string_view what) {
    throw Error(
        ErrorCode::kData,
        fmt::format("{}: expected a path with fields such as {{chunk_index:03d}}, found {}: {}",
                    where, core::ShortDump(text_), what));
  };
  if (text.size() > kMaxPath) refuse("it is too long");
  for (std::size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{')) {
    text.remove_prefix(open + 1);
    const std::size_t close = text.find('}');
    if (close == std::string_view::npos) refuse("a brace is not closed");
    const std::string_view field = text.substr(0, close);
    text.remove_prefix(close + 1);
    const std::size_t colon = std::min(field.find(':'), field.size());
    if (std::ranges::find(kFields, field.substr(0, colon)) == kFields.end()) {
      refuse("a field has an unknown name");
    }
    if (colon == field.size()) continue;
    const std::string_view format = field.substr(colon + 1);
    if (!format.ends_with('d') || !IsDigits(format.substr(0, format.size() - 1))) {
      refuse("a format is not {:03d}");
    }
  }
  try {
    Format({}, "camera");
  } catch (const std::exception&) {
    refuse("it must be a relative path that stays in the dataset's folder");
  }
}

// The fields have the syntax of Python, which is that of fmt.
std::string PathTemplate::Format(const FileNumber& number, const std::string& camera) const {
  const std::string path =
      fmt::format(fmt::runtime(text_), fmt::arg("chunk_index", number.chunk),
                  fmt::arg("episode_chunk", number.chunk), fmt::arg("file_index", number.file),
                  fmt::arg("episode_index", number.file), fmt::arg("video_key", camera));
  zarr::RequireSafeName(path);
  return path;
}

}  // namespace dp_bench::lerobot
