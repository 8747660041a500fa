// The one exception type of dp_bench. User, file and plugin faults throw it; broken invariants of
// our own code use DPB_ASSERT and abort.
#pragma once

#include <exception>
#include <string>

#include "dp_bench/export.h"

namespace dp_bench {

/// What went wrong, from the user's point of view; it decides the exit code of the program.
enum class ErrorCode {
  kUsage,        // the command line
  kConfig,       // a config file or override
  kPlugin,       // a plugin could not be loaded, or broke its contract
  kData,         // a dataset or another input file
  kShape,        // shapes or dtypes that do not fit together
  kEnv,          // a simulation
  kCheckpoint,   // a checkpoint could not be written or read
  kMedia,        // video encoding or decoding
  kNumeric,      // NaN, Inf or a statistic without range
  kIo,           // a file system error
  kInternal,     // a fault of dp_bench itself
  kUnavailable,  // a server has gone; the run stops, and can be continued when it is back
};

/// The exit code of the program for an error that ends it: 2 usage, config, plugin and shape; 5
/// env; 6 data, checkpoint, media and I/O; 7 numeric; 70 internal; 75 unavailable.
DPB_API int ExitCodeFor(ErrorCode code);

/// A message for the user: what was expected, what was found, where, and what to do. Layers that
/// know more about the place add it with `AddContext` as the error passes through.
class DPB_API Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);
  Error(const Error&);
  Error& operator=(const Error&);
  ~Error() override;

  ErrorCode code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

  /// Appends a line such as "in env plugin 'pusht' (libdpb_env_pusht.so), during Step".
  void AddContext(const std::string& context);

 private:
  ErrorCode code_;
  std::string message_;
};

[[noreturn]] DPB_API void AssertionFailed(const char* condition, const char* file, int line);

}  // namespace dp_bench

/// Aborts when an invariant of our own code does not hold. Never for user input.
#define DPB_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::dp_bench::AssertionFailed(#condition, __FILE__, __LINE__))
