#include "task/source_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <string>
#include <system_error>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kUnfinished = ".unfinished";  // of writers (data/reader/unfinished_dataset.h)
constexpr const char* kRecord = ".unfinished.json";

// What the outputs consist of, also before they are complete.
std::set<fs::path> PlacesOf(std::span<const fs::path> outputs) {
  std::set<fs::path> places;
  for (const fs::path& output : outputs) {
    for (const char* const ending : {"", kUnfinished, kRecord}) {
      places.insert(fs::weakly_canonical(core::Beside(fs::absolute(output), ending)));
    }
  }
  return places;
}

// The files of a source, as far as their sizes and times of change tell them from others.
std::string DescribeFiles(const fs::path& source, const std::set<fs::path>& left_out) {
  constexpr int kMaxDepth = 10;  // links may lead in a circle
  std::uint64_t n_files = 0;
  std::uint64_t n_bytes = 0;
  std::time_t last_change = 0;
  std::size_t state = 0;
  const auto add = [&](const fs::path& file) {
    struct stat status {};
    if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    ++n_files;
    n_bytes += static_cast<std::uint64_t>(status.st_size);
    last_change = std::max(last_change, status.st_mtim.tv_sec);
    // a sum, because folders list their files in any order
    state += std::hash<std::string>()(fmt::format("{} {} {} {}", file.string(), status.st_size,
                                                  status.st_mtim.tv_sec, status.st_mtim.tv_nsec));
  };
  const fs::path path = fs::weakly_canonical(source);
  add(path);
  std::error_code error;
  fs::recursive_directory_iterator entry(path,
                                         fs::directory_options::follow_directory_symlink |
                                             fs::directory_options::skip_permission_denied,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const bool is_left_out = left_out.contains(entry->path()) ||
                             core::IsTemporaryName(entry->path().filename().string());
    if (is_left_out || entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    if (!is_left_out) add(entry->path());
  }
  return fmt::format("{} ({} files, {} bytes, last change {:%Y-%m-%d %H:%M:%S} UTC, state {:x})",
                     path.string(), n_files, n_bytes, fmt::gmtime(last_change), state);
}

}  // namespace

SourceRecord::SourceRecord(const DatasetConversion& request, std::span<const fs::path> outputs)
    : output_(request.output), file_(core::Beside(output_, kRecord)) {
  const std::set<fs::path> places = PlacesOf(outputs);
  json texts = json::array();
  for (const fs::path& source : request.sources) {
    texts.push_back(DescribeFiles(source, places));
  }
  record_ = {{"sources", texts}, {"task", request.task}};
}

void SourceRecord::Begin(std::int64_t n_episodes) const {
  if (n_episodes == 0) {
    return core::WriteFileAtomically(
        file_, record_.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  }
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  const json found = fs::exists(file_) ? core::TryParseJson(core::ReadTextFile(file_, kMaxBytes))
                                       : json("of unknown sources");
  // as it was written: text that is not UTF-8 was replaced
  const json wanted = json::parse(record_.dump(-1, ' ', false, json::error_handler_t::replace));
  if (found != wanted) Refuse(n_episodes, found, wanted);
}

void SourceRecord::Remove() const {
  std::error_code ignored;
  fs::remove(file_, ignored);
}

bool SourceRecord::IsNeeded() const {
  return fs::exists(output_) || fs::exists(core::Beside(output_, kUnfinished));
}

void SourceRecord::Refuse(std::int64_t n_episodes, const json& found, const json& wanted) const {
  const json::json_pointer place(
      json::diff(found, wanted).at(0).at("path").get<std::string>());  // the first difference
  const auto show = [&place](const json& record) {
    return record.contains(place) ? record.at(place).dump() : "absent";
  };
  const fs::path unfinished = core::Beside(output_, kUnfinished);
  throw UsageError(
      "{} holds {} episodes of an unfinished copy of other data, and is not continued. Then: {}. "
      "Now: {}. Remove it to begin again, or give another output.",
      (fs::exists(unfinished) ? unfinished : output_).string(), n_episodes, show(found),
      show(wanted));
}

}  // namespace dp_bench::task
