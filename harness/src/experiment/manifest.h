// manifest.json: what a result depends on besides config and seeds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/communicator.h"
#include "experiment/experiment.h"
#include "run/run_checkpoint.h"

namespace dp_bench::experiment {

/// Versions, build ids, the plugins used with the SHA-256 of their files, and the machine, as JSON
/// text. `n_ranks`: processes that share the run. Of a checkpoint also the SHA-256 of its own
/// manifest, which has those of all its files. "seeds": which ones report, and which the training
/// was evaluated on.
std::string MakeManifest(const Experiment& experiment, int n_ranks,
                         const std::optional<run::CheckpointChoice>& checkpoint = std::nullopt);

/// Writes the manifest with the id of the run (run/run_id.h), which it returns, and then the
/// resolved config. With several ranks the first one writes.
std::string WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                         const Config& config, core::Communicator& ranks);

/// Throws Error{kUsage} naming every place where the manifest of a run that is to be continued
/// in `folder` differs from what would be written now: its remaining episodes would not belong to
/// the others. Returns the one that is there.
std::string RequireSameManifest(const std::filesystem::path& folder, const std::string& manifest);

}  // namespace dp_bench::experiment
