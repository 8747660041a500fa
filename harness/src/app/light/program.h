// What both programs do at their start and end: standard streams, signals, arguments, and the
// message and exit code for an exception.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

namespace dp_bench::app {

struct Failure {
  std::string message;  // without "dp_bench: " in front
  int exit_code = 0;
};

using DescribeFunction = Failure (*)(const std::exception& exception);

/// System errors and lack of memory get a suitable message. Only other exceptions are called a bug.
Failure DescribeFailure(const std::exception& exception);

/// Lack of memory, with advice. `what` is what the allocator said.
Failure FailureOfMemory(std::string_view what);

/// Runs `main` and returns the exit code. Opens /dev/null for each closed standard stream, so that
/// no data file gets its number; writes to a closed standard output still fail, and a result that
/// could not be written is a failure. A closed pipe or the file size limit fails a write instead of
/// ending the program. An exception becomes the message and exit code of `describe`. Arguments must
/// be UTF-8, because configs and manifests could not contain others; names and paths must have no
/// control characters.
int RunProgram(int argc, char** argv, const std::function<int()>& main, DescribeFunction describe);

/// Throws Error{kUsage} if mpirun started several processes of `verb`, which supports only one.
void RequireOneProcess(std::string_view verb);

/// What --version prints.
std::string VersionText();

}  // namespace dp_bench::app
