// The ranks of a test program of dpb_add_ranks_test.
#pragma once

#include "core/communicator.h"

namespace dp_bench {

/// Connected before the first test; all ranks run the same tests in the same order.
core::Communicator& TestRanks();

}  // namespace dp_bench
