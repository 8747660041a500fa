// Exit codes that do not come from an error code. Those are in dp_bench/error.h.
#pragma once

namespace dp_bench::core {

inline constexpr int kExitNotComparable = 4;
inline constexpr int kExitOutOfMemory = 71;  // EX_OSERR
inline constexpr int kExitInterrupted = 75;  // EX_TEMPFAIL: --resume continues

}  // namespace dp_bench::core
