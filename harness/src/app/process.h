// What the program settles with the system before anything else: where it writes, what it is told,
// how it allocates.
#pragma once

namespace dp_bench::app {

/// Opens /dev/null where standard input, output or error is closed, so that no data file gets their
/// numbers; standard output such that writes fail. A pipe whose reader has gone, and a file that
/// reached the size limit, fail a write instead of ending the program.
void SettleStandardStreams();

/// A training step takes and frees the same large tensors over and over. By default malloc gives
/// each of them back to the system at once, and getting them again cost a tenth of the step in page
/// faults.
void KeepFreedMemory();

/// Throws Error{kUsage} for an argument that is not UTF-8: it could be in no config and no
/// manifest.
void RequireUtf8(int argc, char** argv);

}  // namespace dp_bench::app
