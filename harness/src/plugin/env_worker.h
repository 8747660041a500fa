// Runs in an env's process and answers one request after another.
#pragma once

namespace dp_bench::plugin {

/// Answers over `socket` until it is asked to end; returns the exit code of the process.
/// `memory_fd`: the shared memory.
int RunEnvWorker(int socket, int memory_fd);

}  // namespace dp_bench::plugin
