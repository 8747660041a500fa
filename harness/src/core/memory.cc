#include "core/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace dp_bench::core {
namespace {

// What RLIMIT_AS (`ulimit -v`) leaves for this process; none if there is no limit.
std::optional<std::int64_t> LeftInAddressSpace() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  std::int64_t n_pages = 0;
  if (!(std::ifstream("/proc/self/statm") >> n_pages)) return std::nullopt;
  const std::int64_t left = static_cast<std::int64_t>(limit.rlim_cur) - n_pages * getpagesize();
  return std::max<std::int64_t>(0, left);
}

std::int64_t AvailableOnMachine() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    std::int64_t kibibytes = 0;
    if (!(file >> kibibytes)) return 0;
    if (name == "MemAvailable:") return kibibytes << 10;
    std::getline(file, unit);
  }
  return 0;
}

}  // namespace

std::int64_t AvailableMemory() {
  const std::int64_t machine = AvailableOnMachine();
  const std::optional<std::int64_t> process = LeftInAddressSpace();
  if (!process) return machine;
  return machine == 0 ? *process : std::min(machine, *process);
}

}  // namespace dp_bench::core
