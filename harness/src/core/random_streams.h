// The random streams that only the harness draws, under the numbers that StreamId leaves out.
#pragma once

#include "dp_bench/random.h"

namespace dp_bench::core {

inline constexpr StreamId kShuffleStream{8};       // the order of samples
inline constexpr StreamId kInitStream{10};         // made-up inputs
inline constexpr StreamId kGatePlanStream{11};     // pairs of simulated gates
inline constexpr StreamId kRollForwardStream{12};  // delays of training samples

}  // namespace dp_bench::core
