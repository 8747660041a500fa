// The file of `dp_bench correct`: the head that corrects a policy's chunks.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "control/chunking_config.h"
#include "control/correction_head.h"
#include "dp_bench/spec.h"

namespace dp_bench::planner {

/// The head of chunking.corrector; null for another method than a2c2. Throws Error{kCheckpoint} if
/// the file is not one for this policy, or not the one of corrector_sha256; Error{kIo}.
std::shared_ptr<const control::CorrectionHead> ReadCorrection(
    const control::ChunkingConfig& chunking, const PolicySpec& spec);

/// Its SHA-256. Throws Error{kIo}.
std::string CorrectionHash(const std::filesystem::path& file);

}  // namespace dp_bench::planner
