// Setup of the process at its start: standard streams, memory allocation, arguments.
#pragma once

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

}  // namespace dp_bench::app
