// The process: its start (standard streams, memory allocation, arguments), the ranks of mpirun, and
// the message and exit code for an exception that ends it.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "core/communicator.h"

namespace dp_bench::app {

/// Opens /dev/null for each closed standard stream, so that no data file gets its number; writes to
/// a closed standard output still fail. A closed pipe or the file size limit fails a write instead
/// of ending the program.
void SettleStandardStreams();

/// Keeps freed memory in the process. A training step allocates and frees the same large tensors
/// again and again; by default malloc returns each to the system at once, and the page faults cost
/// a tenth of the step.
void KeepFreedMemory();

/// Throws Error{kUsage} for an argument that is not UTF-8, because configs and manifests could not
/// contain it, and for a name or path with control characters.
void RequireUtf8(int argc, char** argv);

struct Failure {
  std::string message;  // without "dp_bench: " in front
  int exit_code = 0;
};

/// System errors and lack of memory get a suitable message. Only other exceptions are called a bug.
Failure DescribeFailure(const std::exception& exception);

/// Connects the ranks and runs `verb` on each. Only rank 0 writes to standard output. Waits for all
/// ranks and returns their largest exit code. With several ranks, an exception is printed with its
/// rank and ends all ranks; only exceptions of ConnectRanks are thrown.
int RunOnRanks(const std::function<int(core::Communicator& ranks)>& verb);

/// Throws Error{kUsage} if mpirun started several processes of `verb`, which supports only one.
void RequireOneProcess(std::string_view verb);

}  // namespace dp_bench::app
