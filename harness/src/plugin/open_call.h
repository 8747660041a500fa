// The call into a plugin that each thread is in. If a plugin ends the program, by a crash or by
// exit(), nothing else can tell the user which plugin it was.
#pragma once

namespace dp_bench::plugin {

struct PluginPlace;

struct OpenCall {
  const PluginPlace* place = nullptr;  // null: none
  const char* name = nullptr;          // "Step"
};

/// Of this thread. The model makes an access a single instruction.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local OpenCall open_call;

/// A call, from its construction to its destruction. Takes about 1 ns.
class OpenCallScope {
 public:
  OpenCallScope(const PluginPlace& place, const char* name) : outer_(open_call) {
    open_call = {&place, name};
  }
  OpenCallScope(const OpenCallScope&) = delete;
  OpenCallScope& operator=(const OpenCallScope&) = delete;
  ~OpenCallScope() { open_call = outer_; }

 private:
  const OpenCall outer_;
};

/// While it exists, a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) prints the open call of its
/// thread before the program dies as usual, and exit() or quick_exit(), which only a plugin calls
/// then, ends the program with that message and the exit code of Error{kPlugin}. One per program,
/// in main().
class EarlyEndReport {
 public:
  EarlyEndReport();
  EarlyEndReport(const EarlyEndReport&) = delete;
  EarlyEndReport& operator=(const EarlyEndReport&) = delete;
  ~EarlyEndReport();
};

/// For a child process after fork: crashes and exit() mean nothing there.
void DropEarlyEndReport();

}  // namespace dp_bench::plugin
