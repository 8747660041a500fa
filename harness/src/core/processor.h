// The processor of this machine.
#pragma once

#include <string>

namespace dp_bench::core {

/// As Linux names it; "unknown" if it does not.
std::string ProcessorName();

// Instruction sets; false on processors other than x86-64.

bool HasAvx2AndFma();
bool HasAvx512();            // its foundation, AVX512F
bool HasBfloat16Products();  // AVX512_BF16, which processors with AMX have too

}  // namespace dp_bench::core
