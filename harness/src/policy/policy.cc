// The out-of-line part of the policy interface: the home of its vtable.
#include "dp_bench/policy.h"

namespace dp_bench {

Policy::~Policy() = default;

}  // namespace dp_bench
