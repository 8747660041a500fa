#include "dp_bench/error.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/exit_code.h"

namespace dp_bench {

int ExitCodeFor(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    case ErrorCode::kConfig:
    case ErrorCode::kPlugin:
    case ErrorCode::kShape:
      return 2;
    case ErrorCode::kEnv:
      return 5;
    case ErrorCode::kData:
    case ErrorCode::kCheckpoint:
    case ErrorCode::kMedia:
    case ErrorCode::kIo:
      return 6;
    case ErrorCode::kNumeric:
      return 7;
    case ErrorCode::kUnavailable:
      return core::kExitInterrupted;
    case ErrorCode::kInternal:
      break;
  }
  return 70;
}

Error::Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
Error::Error(const Error&) = default;
Error& Error::operator=(const Error&) = default;
Error::~Error() = default;

void Error::AddContext(const std::string& context) { message_ += "\n  " + context; }

void AssertionFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "dp_bench: broken invariant `%s` at %s:%d. This is a bug in dp_bench.\n",
               condition, file, line);
  std::abort();
}

}  // namespace dp_bench
