// manifest.json: what a result depends on besides config and seeds.
#pragma once

#include <filesystem>

#include "app/experiment.h"

namespace dp_bench {

/// Writes versions, build ids, the plugins used with the SHA-256 of their files, and the machine.
void WriteManifest(const Experiment& experiment, const std::filesystem::path& path);

}  // namespace dp_bench
