// cost.json: what a run cost, one entry per process that worked on it. The file is apart from
// manifest.json, because a run that was interrupted and resumed otherwise has the same files as one
// that was not.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine.h"

namespace dp_bench::run {

/// Adds an entry. A file that cannot be read is replaced, with a warning. Throws Error{kIo}.
void AddCost(const std::filesystem::path& folder, const core::Cost& cost);

/// Replaces the entries of the shards that the folder was merged of; its own stay. Throws
/// Error{kIo}.
void SetShardCosts(const std::filesystem::path& folder, const std::vector<core::Cost>& costs);

/// Sums and the largest peak; energy only if all entries have it. Throws Error{kData} naming
/// `origin`.
core::Cost ParseCost(std::string_view text, const std::string& origin);

/// "0:12:30, CPU time 0:21:18, at most 812 MiB of memory, 12.3 kJ of processors and GPUs".
std::string Describe(const core::Cost& cost);

/// "load average 3.1 on 2 processors".
std::string Describe(const core::MachineLoad& load);

}  // namespace dp_bench::run
