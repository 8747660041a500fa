// A policy whose plans come from its graphs.
#pragma once

#include <memory>

#include "dp_bench/policy.h"
#include "graph/graph_runtime.h"

namespace dp_bench::graph {

/// What computes the plans of a policy: LibTorch, or OpenVINO through the policy's graphs.
enum class Backend { kTorch, kOpenVino };

/// Reads policy.backend.
Backend ReadBackend(const Config& policy);

/// `policy`, which has its weights and normalizer and is on the CPU, planning with `backend`. It
/// cannot be trained. Throws Error{kConfig} for a policy without graphs, Error{kPlugin} if the
/// backend is missing.
std::unique_ptr<Policy> WithBackend(Backend backend, std::unique_ptr<Policy> policy,
                                    const Normalizer& normalizer);

}  // namespace dp_bench::graph
