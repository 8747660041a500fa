#include "core/processor.h"

#include <fstream>

namespace dp_bench::core {

std::string ProcessorName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

#if defined(__x86_64__)
bool HasAvx2AndFma() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool HasAvx512() { return __builtin_cpu_supports("avx512f"); }
bool HasBfloat16Products() { return __builtin_cpu_supports("avx512bf16"); }
#else
bool HasAvx2AndFma() { return false; }
bool HasAvx512() { return false; }
bool HasBfloat16Products() { return false; }
#endif

}  // namespace dp_bench::core
