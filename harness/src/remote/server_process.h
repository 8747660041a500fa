// The program of a policy server: starts it, learns its port, watches it and ends it. The program
// listens on a free port of this machine, and writes the number with a line end to the descriptor
// that the variable DP_BENCH_PORT_FD names, in one call.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "plugin/worker_process.h"

namespace dp_bench::remote {

struct ServerProcessOptions {
  std::string command;        // for the shell
  std::string scheme = "ws";  // of its address
  std::chrono::milliseconds start_time{60000};
};

class OutputTail;

/// Used by one thread at a time. The program, and every process that it started, ends with this
/// object, and with this program, however that ends. What it prints goes to standard error.
class ServerProcess {
 public:
  /// Waits until the program has told its port. Throws Error{kPlugin} with the last lines that it
  /// printed if it ends or is too slow, and Error{kIo} if no process can be started.
  explicit ServerProcess(ServerProcessOptions options);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  /// Sends SIGTERM, and after 2 s SIGKILL.
  ~ServerProcess();

  /// Its address. Starts it again if it has ended; once that has failed, throws the same error.
  std::string Url();

  bool IsRunning() { return !worker_.HasEnded(); }

  /// How it ended, and the last lines that it printed: "exited with code 3: ...". "" if it runs.
  std::string Ending();

  const std::string& command() const { return options_.command; }
  int n_starts() const { return n_starts_; }

 private:
  void Start();
  int AwaitPort(int socket);
  void End();

  ServerProcessOptions options_;
  int n_starts_ = 0;
  plugin::WorkerChild worker_;  // which runs it
  int port_ = 0;
  std::string failure_;  // to start it again
  std::unique_ptr<OutputTail> output_;
};

/// The words as one command line for the shell.
std::string ShellCommand(std::span<const std::string> words);

}  // namespace dp_bench::remote
