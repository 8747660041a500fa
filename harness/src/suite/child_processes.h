// Commands of this program in processes of their own, several at once.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::suite {

/// In the output of a process, before what it prints.
inline constexpr std::string_view kAttemptLine = "--- dp_bench ";
inline constexpr std::string_view kErrorPrefix = "dp_bench: ";  // of the message that ends it
inline constexpr std::string_view kSignalLine = "dp_bench: ended by signal ";

/// Used by one thread, which starts them all: they end with it.
class ChildProcesses {
 public:
  /// Up to `n_at_once`, between which the processors of this process are divided: a command counts
  /// those that it may use, and so chooses its number of threads.
  explicit ChildProcesses(int n_at_once);
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  /// Asks those that still run to end, and kills them after 20 s.
  ~ChildProcesses();

  bool has_place() const;
  std::size_t n_running() const;

  /// Starts this program with these arguments. What it prints is appended to the file `output`.
  /// Throws Error{kIo}.
  void Start(std::size_t id, const std::vector<std::string>& arguments,
             const std::filesystem::path& output);

  struct Ended {
    std::size_t id = 0;
    int status = 0;  // of waitpid
  };

  /// One that has ended, without waiting for it. If a signal ended it, its output says so.
  std::optional<Ended> TakeEnded();

  /// Asks all to save their work and end (SIGTERM).
  void AskToEnd();

 private:
  struct Place {
    cpu_set_t processors;
    pid_t pid = -1;  // -1: free
    std::size_t id = 0;
    std::filesystem::path output;
  };

  std::vector<Place> places_;
};

}  // namespace dp_bench::suite
