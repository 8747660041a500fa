// What runs in an env's own process: it answers one request after the other.
#pragma once

namespace dp_bench::plugin {

/// Answers over `socket` until it is asked to end; returns the exit code of the process.
/// `memory_fd`: the shared memory.
int RunEnvWorker(int socket, int memory_fd);

}  // namespace dp_bench::plugin
