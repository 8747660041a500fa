#include "isolate/unchanged_files.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <tuple>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

// Inode, size [bytes], and time of the last change [s, ns].
using Identity = std::tuple<ino_t, off_t, time_t, long>;

Identity IdentityOf(const std::filesystem::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) return {};
  return {found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

}  // namespace

void RequireUnchanged(const std::filesystem::path& file) {
  static std::mutex mutex;
  static auto* const first = new std::map<std::filesystem::path, Identity>();
  const std::lock_guard lock(mutex);
  const Identity now = IdentityOf(file);
  if (first->emplace(file, now).first->second == now) return;
  throw Error(ErrorCode::kPlugin,
              fmt::format("{} was replaced while this program runs, and an env's process would run "
                          "the new one; start the program again",
                          file.string()));
}

std::filesystem::path OwnLibrary() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&OwnLibrary), &info);
  return info.dli_fname;
}

}  // namespace dp_bench
