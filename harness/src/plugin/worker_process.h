// A process that runs one env: starts it, sends it requests, watches it and ends it.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/system_error.h"
#include "dp_bench/hosted_env.h"
#include "plugin/env_message.h"
#include "plugin/shared_memory.h"

namespace dp_bench::plugin {

/// The program that runs env plugins, in the same folder as this one: dp_bench_env_worker.
inline constexpr const char* kWorkerProgram = "dp_bench_env_worker";

/// Tells that program to end its env and all that the env started. No batch system sends it.
inline const int kEndSignal = SIGRTMAX;

/// What a process runs.
struct WorkerCommand {
  /// The program, which is searched for in PATH unless it has a slash, and its arguments. The
  /// numbers of the socket, of the shared memory and of its parent follow them. None: a plugin.
  std::vector<std::string> arguments;
  std::vector<std::filesystem::path> files;  // loaded by each process; see RequireUnchanged

  /// A plugin in dp_bench_env_worker. Throws Error{kIo} if that is missing.
  static WorkerCommand OfPlugins();
};

/// A process of dp_bench_env_worker, or none. Used by one thread at a time.
class WorkerChild {
 public:
  WorkerChild() = default;

  /// Starts the worker, which runs the command and ends it with this program. Both descriptors are
  /// open in what it runs, which gets their numbers and that of its parent as arguments; the worker
  /// sends the id of what it runs over `socket` first. Throws Error{kIo} if it cannot be started.
  WorkerChild(const WorkerCommand& command, int socket, int memory);

  /// Its id, which is that of a process group too; -1 once it is known to have ended.
  pid_t id() const { return id_; }

  bool HasEnded();
  /// The same, after waiting for that.
  bool HasEndedWithin(std::chrono::milliseconds time);

  /// Ends it and all that it started. `ending` then is `why`, if it is given.
  void Kill(const std::string& why = "");

  /// How it ended: "died with signal 11 (SIGSEGV)", "exited with code 3".
  const std::string& ending() const { return ending_; }

 private:
  pid_t id_ = -1;
  std::string ending_;
};

/// Used by one thread at a time, which may change. The process, and every process that it started,
/// ends with this object, with this program (however that ends), and when a limit is exceeded.
class WorkerProcess {
 public:
  /// Throws Error{kIo} if it cannot be started.
  explicit WorkerProcess(const WorkerCommand& command = WorkerCommand::OfPlugins());
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  /// Asks it to end, and kills it if it does not.
  ~WorkerProcess();

  SharedMemory& memory() { return memory_; }

  /// Nothing if the process ended instead of answering; `ending` then says how. Do not call it
  /// after that.
  std::optional<Answer> Ask(const Request& request, const EnvLimits& limits);

  /// Completes "the env plugin <ending>": "died with signal 11 (SIGSEGV)", "exited with code 3",
  /// "did not answer within 30 s".
  const std::string& ending() const { return worker_.ending(); }

 private:
  using Clock = std::chrono::steady_clock;

  bool Send(const Request& request);
  bool HoldsTooMuchMemory(int limit_mb);
  void Reap();

  SharedMemory memory_;
  std::optional<core::Descriptor> socket_;
  WorkerChild worker_;
  pid_t env_ = -1;  // its child, which runs the env
  Clock::time_point last_memory_check_;
};

/// How a process ended, from the status of waitpid: "died with signal 11 (SIGSEGV)", "exited with
/// code 3".
std::string DescribeStatus(int status);

// Every process loads program, library and plugin from disk. A new build that replaces them during
// a run must not change the outcome unnoticed.

/// Throws Error{kPlugin} if the file has changed since the first call for it.
void RequireUnchanged(const std::filesystem::path& file);

/// The library that contains this function: dp_bench_core, whatever program uses it.
std::filesystem::path OwnLibrary();

/// Its folder.
std::filesystem::path LibraryFolder();

}  // namespace dp_bench::plugin
