// How much memory the system could give now.
#pragma once

#include <cstdint>

namespace dp_bench {

/// [bytes]; 0 where the system does not say.
std::int64_t AvailableMemory();

}  // namespace dp_bench
