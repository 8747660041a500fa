// A policy whose plans come from its graphs.
#pragma once

#include <memory>
#include <string_view>

#include "dp_bench/policy.h"
#include "graph/graph_runtime.h"

namespace dp_bench::graph {

/// What computes the plans of a policy: its own code, or its graphs in LibTorch or OpenVINO.
enum class Backend { kTorch, kTorchScript, kOpenVino };

/// As in policy.backend.
std::string_view Name(Backend backend);

/// Reads policy.backend.
Backend ReadBackend(const Config& policy);

/// `policy`, which has its weights and normalizer and is on the CPU, planning with `backend`. It
/// cannot be trained. Throws Error{kConfig} for a policy without graphs, Error{kPlugin} if the
/// backend is missing.
std::unique_ptr<Policy> WithBackend(Backend backend, std::unique_ptr<Policy> policy,
                                    const Normalizer& normalizer);

}  // namespace dp_bench::graph
