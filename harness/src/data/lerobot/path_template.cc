// See path_template.h.
#include "data/lerobot/path_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/json.h"
#include "data/zarr/store.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

constexpr std::size_t kMaxPath = 4096;

bool IsDigits(std::string_view text) {
  return text.size() <= 2 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

PathTemplate::PathTemplate(std::string_view text, const std::string& where) {
  const auto refuse = [&, whole = std::string(text)](std::string_view what) {
    throw Error(
        ErrorCode::kData,
        fmt::format("{}: expected a path with fields such as {{chunk_index:03d}}, found {}: {}",
                    where, core::ShortDump(whole), what));
  };
  if (text.size() > kMaxPath) refuse("it is too long");
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    if (open != 0) {
      parts_.push_back({.field = Field::kLetters, .text = std::string(text.substr(0, open))});
      if (open == std::string_view::npos) break;
      text.remove_prefix(open);
      continue;
    }
    const std::size_t close = text.find('}');
    if (close == std::string_view::npos) refuse("a brace is not closed");
    std::string_view name = text.substr(1, close - 1);
    text.remove_prefix(close + 1);

    Part part{.field = Field::kCamera};
    if (const std::size_t colon = name.find(':'); colon != std::string_view::npos) {
      std::string_view format = name.substr(colon + 1);
      name = name.substr(0, colon);
      if (!format.ends_with('d')) refuse("a format is not {:03d}");
      format.remove_suffix(1);
      if (!IsDigits(format)) refuse("a format is not {:03d}");
      part.width = std::stoi("0" + std::string(format));
    }
    if (name == "chunk_index" || name == "episode_chunk") {
      part.field = Field::kChunk;
    } else if (name == "file_index" || name == "episode_index") {
      part.field = Field::kFile;
    } else if (name != "video_key") {
      refuse("a field has an unknown name");
    }
    parts_.push_back(std::move(part));
  }
  try {
    Format({}, "camera");
  } catch (const Error&) {
    refuse("it must be a relative path that stays in the data set's folder");
  }
}

std::string PathTemplate::Format(const FileNumber& number, const std::string& camera) const {
  std::string path;
  for (const Part& part : parts_) {
    switch (part.field) {
      case Field::kLetters:
        path += part.text;
        break;
      case Field::kChunk:
        path += fmt::format("{:0{}}", number.chunk, part.width);
        break;
      case Field::kFile:
        path += fmt::format("{:0{}}", number.file, part.width);
        break;
      case Field::kCamera:
        path += camera;
        break;
    }
  }
  zarr::RequireSafeName(path);
  return path;
}

}  // namespace dp_bench::lerobot
