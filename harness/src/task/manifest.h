// manifest.json: everything that a result depends on, except config and seeds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/communicator.h"
#include "run/run_checkpoint.h"
#include "task/experiment.h"

namespace dp_bench::task {

/// JSON with versions, build ids, the used plugins with the SHA-256 of their files, the machine,
/// and the seeds of report and selection. With a checkpoint also its hash. `n_ranks`: processes
/// that share the run.
std::string MakeManifest(const Experiment& experiment, int n_ranks,
                         const std::optional<run::CheckpointChoice>& checkpoint = std::nullopt);

/// The SHA-256 of a checkpoint's manifest, which covers all its files.
std::string CheckpointHash(const std::filesystem::path& checkpoint);

/// With env_runner.certify, adds the certificate that the env's outcomes are a function of the seed
/// (run/determinism.h), and says what it found.
std::string WithCertificate(const Experiment& experiment, const std::string& manifest);

/// Warns about each policy or env plugin of `manifest` whose file is not the one that the training
/// of `checkpoint` used. Says nothing for a checkpoint outside of a run folder.
void WarnOfChangedPlugins(const std::filesystem::path& checkpoint, const std::string& manifest);

/// Adds the run's id to the manifest (run/run_id.h), writes it and then the resolved config, and
/// returns the manifest. With several ranks, rank 0 writes.
std::string WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                         const Config& config, core::Communicator& ranks);

/// Returns the manifest in `folder`, for a run that is to be continued. Throws Error{kUsage}
/// listing the differences if `manifest` is not the same, because the remaining episodes would not
/// match the others. A certificate and the seeds are not compared.
std::string RequireSameManifest(const std::filesystem::path& folder, const std::string& manifest);

}  // namespace dp_bench::task
