#include "core/memory.h"

#include <fstream>
#include <string>

namespace dp_bench::core {

std::int64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    std::int64_t kibibytes = 0;
    if (!(file >> kibibytes)) return 0;
    if (name == "MemAvailable:") return kibibytes << 10;
    std::getline(file, unit);
  }
  return 0;
}

}  // namespace dp_bench::core
