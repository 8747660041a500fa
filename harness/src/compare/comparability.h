// Whether the episodes of two runs may be paired: the same env, doing the same task, on the same
// seeds. The policies may differ in everything.
#pragma once

#include <string>
#include <vector>

#include "run/run_folder.h"

namespace dp_bench::compare {

/// A field that must agree and does not.
struct Mismatch {
  std::string field;  // "env.params.task"
  std::string a;      // JSON, or "absent"
  std::string b;
};

/// The fields of config.json's section env, env_runner.max_steps and the version of the env plugin
/// (its success criterion is in there). A file that either folder lacks is not compared. Throws
/// Error{kData} when config.json or manifest.json is not JSON.
std::vector<Mismatch> FindTaskMismatches(const run::RunFolder& a, const run::RunFolder& b);

/// The same with the seeds of the split "test".
std::vector<Mismatch> FindMismatches(const run::RunFolder& a, const run::RunFolder& b);

/// What does not forbid a comparison and yet is worth knowing: files that are missing, an env
/// plugin of the same version from another build.
std::vector<std::string> ComparabilityNotes(const run::RunFolder& a, const run::RunFolder& b);

}  // namespace dp_bench::compare
