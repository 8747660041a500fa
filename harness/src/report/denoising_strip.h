// How one plan came out of noise, as a strip of small plots for report.html.
#pragma once

#include <filesystem>
#include <kainjow/mustache.hpp>

namespace dp_bench::report {

inline constexpr const char* kDenoisingFile = "denoising.json";

/// Sets `denoising` of report.html's page from a denoising.json (rollout/denoising.h): {seed,
/// env_step, n_steps, dims, low, high, panels: [{label, svg, is_plan}]}; false where there is none.
/// Throws Error{kData} when it is not what it should be.
void SetDenoising(const std::filesystem::path& file, kainjow::mustache::data* page);

}  // namespace dp_bench::report
