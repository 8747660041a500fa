#include "run/result_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>

#include "core/errors.h"
#include "core/output_file.h"
#include "core/regular_file.h"
#include "run/run_contents.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeadBytes = std::size_t{1} << 20;

[[noreturn]] void Refuse(const ResultFile& file, const std::string& found) {
  throw UsageError("{} '{}': {}. Give another name.", file.option, file.path.string(), found);
}

// An empty file, as of mktemp, holds nothing to lose.
bool MayReplace(const fs::path& path, std::string_view mark) {
  core::RegularFile file(path);
  std::string head(std::min<std::uint64_t>(file.size(), kHeadBytes), '\0');
  head.resize(file.Read(std::as_writable_bytes(std::span(head))));
  return head.empty() || head.find(mark) != std::string::npos;
}

void RequireResultFile(const ResultFile& file, const core::OutputPlace& place) {
  if (place.is_stream) return;
  for (const fs::path& path : {file.path, place.path}) {
    const fs::path run = RunThatOwns(path);
    if (run.empty()) continue;
    Refuse(file, fmt::format("this is a file of the run in '{}', which is not overwritten",
                             run.string()));
  }
  if (fs::exists(place.path) && !MayReplace(place.path, file.kind.mark)) {
    Refuse(file, fmt::format("expected no file or {}, which would be replaced; found another file",
                             file.kind.name));
  }
}

}  // namespace

void RequireResultFiles(const std::vector<ResultFile>& files) {
  std::set<std::string> places;
  for (const ResultFile& file : files) {
    if (file.path.empty()) continue;
    const core::OutputPlace place = core::FindOutput(file.path);
    RequireResultFile(file, place);
    const bool is_standard_output = place.descriptor == STDOUT_FILENO;
    if (is_standard_output) core::ReserveStandardOutput();
    const std::string name = place.descriptor >= 0 ? fmt::format("{}", place.descriptor)
                                                   : fs::weakly_canonical(place.path).string();
    if (!places.insert(name).second) Refuse(file, "another result goes there too");
  }
}

}  // namespace dp_bench::run
