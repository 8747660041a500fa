// Lists processes.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "plugin/worker_process.h"
#include "support/eventually.h"

namespace dp_bench::plugin {

struct ProcessStatus {
  std::string name;  // the kernel cuts it after 15 letters
  char state = 'X';  // X: there is no such process
  pid_t parent = -1;
};

inline ProcessStatus StatusOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return {};
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  ProcessStatus status{.name = text.substr(open + 1, close - open - 1)};
  std::istringstream(text.substr(close + 1)) >> status.state >> status.parent;
  return status;
}

/// The env processes of `host` that are still running.
inline std::vector<pid_t> WorkersOf(pid_t host) {
  std::vector<pid_t> workers;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid <= 0) continue;
    const ProcessStatus status = StatusOf(pid);
    const bool is_worker = status.name == std::string(kWorkerProgram).substr(0, 15);
    if (is_worker && status.parent == host && status.state != 'Z') workers.push_back(pid);
  }
  return workers;
}

/// Its env processes and theirs.
inline std::vector<pid_t> StartedBy(pid_t host) {
  std::vector<pid_t> started = WorkersOf(host);
  for (std::size_t i = 0; i < started.size(); ++i) {
    const std::vector<pid_t> below = WorkersOf(started[i]);
    started.insert(started.end(), below.begin(), below.end());
  }
  return started;
}

inline bool HasEnded(pid_t pid) {
  const char state = StatusOf(pid).state;
  return state == 'X' || state == 'Z';
}

}  // namespace dp_bench::plugin
