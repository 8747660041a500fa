// getrusage(2), getloadavg(3), and the powercap files of Linux
// (Documentation/power/powercap/powercap.rst).
#include "core/machine.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/control_groups.h"

namespace dp_bench::core {

namespace {

namespace fs = std::filesystem;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

struct Usage {
  double cpu_s = 0.0;
  std::int64_t peak_bytes = 0;
};

// Of a process that is not waited for yet, and of its children that are: /proc/PID/stat, see
// proc(5). Adds nothing if it has ended.
void AddRunning(const fs::path& process, Usage* usage) {
  std::string stat;
  std::getline(std::ifstream(process / "stat"), stat);
  std::istringstream after_name(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::vector<std::string> fields;
  for (std::string field; after_name >> field;) fields.push_back(field);
  constexpr std::size_t kUtime = 11;  // then stime, cutime, cstime
  for (std::size_t i = kUtime; i < std::min(fields.size(), kUtime + 4); ++i) {
    usage->cpu_s += std::stod(fields[i]) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) usage->peak_bytes += std::stoll(line.substr(6)) << 10;
  }
}

// The children of a process that still run, and theirs. None on a Linux without
// CONFIG_PROC_CHILDREN.
void AddDescendants(const fs::path& process, Usage* usage) {
  std::error_code none;
  for (fs::directory_iterator it(process / "task", none), end; !none && it != end;
       it.increment(none)) {
    std::ifstream children(it->path() / "children");
    for (std::string child; children >> child;) {
      AddRunning(fs::path("/proc") / child, usage);
      AddDescendants(fs::path("/proc") / child, usage);
    }
  }
}

// Of this process and of all that it started, such as envs.
Usage ReadUsage() {
  Usage sum;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (getrusage(who, &usage) != 0) continue;
    sum.cpu_s += Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
    if (who == RUSAGE_SELF) sum.peak_bytes = std::int64_t{usage.ru_maxrss} << 10;
  }
  AddDescendants("/proc/self", &sum);
  return sum;
}

// The counters are often readable for root only.
std::optional<double> ReadNumber(const fs::path& file) {
  double value = 0.0;
  if (std::ifstream(file) >> value) return value;
  return std::nullopt;
}

// "intel-rapl:0" is a processor; "intel-rapl:0:1" is a part of it.
bool IsProcessor(const std::string& name) {
  return name.starts_with("intel-rapl:") && name.find(':') == name.rfind(':');
}

// What RLIMIT_AS (`ulimit -v`) leaves for this process; none if there is no limit.
std::optional<std::int64_t> LeftInAddressSpace() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  std::int64_t n_pages = 0;
  if (!(std::ifstream("/proc/self/statm") >> n_pages)) return std::nullopt;
  const std::int64_t left = static_cast<std::int64_t>(limit.rlim_cur) - n_pages * getpagesize();
  return std::max<std::int64_t>(0, left);
}

// The files of a control group, in the two versions of cgroups.
struct GroupFiles {
  const char* limit;
  const char* used;
};

GroupFiles FilesOf(bool is_version_2) {
  if (is_version_2) return {"memory.max", "memory.current"};
  return {"memory.limit_in_bytes", "memory.usage_in_bytes"};
}

// None if the group has no limit.
std::optional<std::int64_t> LeftInGroup(const fs::path& group, const GroupFiles& files) {
  constexpr double kNoLimit = 0x1p60;  // version 1; "max", of version 2, is no number
  const auto limit = ReadNumber(group / files.limit);
  const auto used = ReadNumber(group / files.used);
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  double own = 0.0;  // the page cache, which the kernel gives back
  double all = 0.0;  // in version 1: with that of the groups below, which `used` has too
  std::ifstream stat(group / "memory.stat");
  double value = 0.0;
  for (std::string name; stat >> name >> value;) {
    if (name == "inactive_file" || name == "active_file") own += value;
    if (name == "total_inactive_file" || name == "total_active_file") all += value;
  }
  const double left = *limit - *used + std::max(own, all);
  return static_cast<std::int64_t>(std::clamp(left, 0.0, *limit));
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

MachineLoad ReadMachineLoad() {
  MachineLoad load = {.n_processors = static_cast<int>(std::thread::hardware_concurrency())};
  if (getloadavg(&load.average, 1) != 1) load.average = 0.0;
  return load;
}

CostMeter::CostMeter(const fs::path& powercap, GpuEnergy gpus)
    : start_cpu_s_(ReadUsage().cpu_s), gpus_(std::move(gpus)), start_gpu_j_(gpus_.Read()) {
  std::error_code none;
  for (fs::directory_iterator it(powercap, none), end; !none && it != end; it.increment(none)) {
    if (!IsProcessor(it->path().filename().string())) continue;
    const auto energy = ReadNumber(it->path() / "energy_uj");
    if (!energy) continue;
    counters_.push_back({.folder = it->path(),
                         .last_uj = *energy,
                         .range_uj = ReadNumber(it->path() / "max_energy_range_uj").value_or(0.0)});
  }
}

Cost CostMeter::Read() {
  const Usage usage = ReadUsage();
  Cost cost = {.wall_s = SecondsSince(start_),
               .cpu_s = usage.cpu_s - start_cpu_s_,
               .peak_bytes = usage.peak_bytes,
               .energy_j = std::nullopt,
               .load = ReadMachineLoad()};
  for (EnergyCounter& counter : counters_) {
    const double now = ReadNumber(counter.folder / "energy_uj").value_or(counter.last_uj);
    const double grown = now - counter.last_uj;
    energy_j_ += 1e-6 * (grown >= 0.0 ? grown : grown + counter.range_uj);
    counter.last_uj = now;
  }
  // a counter that begins again several times between two readings counts too little
  if (!counters_.empty()) cost.energy_j = energy_j_;
  const std::optional<double> gpu_j = gpus_.Read();
  if (start_gpu_j_ && gpu_j) cost.energy_j = cost.energy_j.value_or(0.0) + *gpu_j - *start_gpu_j_;
  return cost;
}

std::optional<std::int64_t> MemoryLeftInGroups(const fs::path& groups, const fs::path& mount) {
  std::optional<std::int64_t> left;
  ForEachGroup(groups, mount, "memory", [&](const fs::path& group, bool is_version_2) {
    if (const auto here = LeftInGroup(group, FilesOf(is_version_2))) {
      left = std::min(left.value_or(*here), *here);
    }
  });
  return left;
}

std::int64_t AvailableMemory() {
  std::int64_t left = AvailableOnMachine();
  for (const auto& limit : {MemoryLeftInGroups(), LeftInAddressSpace()}) {
    if (!limit) continue;
    const std::int64_t known = std::max<std::int64_t>(1, *limit);
    left = left == 0 ? known : std::min(left, known);
  }
  return left;
}

std::int64_t MemoryOfMachine(const fs::path& groups, const fs::path& mount) {
  auto least = static_cast<double>(std::int64_t{sysconf(_SC_PHYS_PAGES)} * getpagesize());
  ForEachGroup(groups, mount, "memory", [&](const fs::path& group, bool is_version_2) {
    const auto limit = ReadNumber(group / FilesOf(is_version_2).limit);
    least = std::min(least, limit.value_or(least));
  });
  return static_cast<std::int64_t>(least);
}

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);   // [bytes], the largest that glibc takes
  mallopt(M_TRIM_THRESHOLD, 512 << 20);  // [bytes]
}

}  // namespace dp_bench::core
