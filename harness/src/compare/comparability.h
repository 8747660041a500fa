// Whether the episodes of two runs may be paired: same env, same task, same seeds. The policies may
// differ in everything.
#pragma once

#include <string>
#include <vector>

#include "run/run_folder.h"

namespace dp_bench::compare {

/// A field that differs but must agree.
struct Mismatch {
  std::string field;  // "env.params.task"
  std::string a;      // JSON, or "absent"
  std::string b;
};

/// Compares the env section of config.json, env_runner.max_steps, and the version of the env plugin
/// (which fixes its success criterion). A file that either folder lacks is not compared. Throws
/// Error{kData} if config.json or manifest.json is not JSON.
std::vector<Mismatch> FindTaskMismatches(const run::RunFolder& a, const run::RunFolder& b);

/// Why equal seeds of the two need not mean equal starts; empty if they do. Seeds that different
/// programs numbered are not the same, and some programs write none. Outcomes that are not a
/// function of the seed (run/determinism.h) cannot be paired either.
std::string WhyUnpaired(const run::RunFolder& a, const run::RunFolder& b);

/// For a user who knows that equal seeds mean equal starts, or equal places where a file has none.
void AssumeSameSeeds(std::vector<run::RunFolder>* folders);

/// FindTaskMismatches, and the seeds of the split "test" if the two can be paired.
std::vector<Mismatch> FindMismatches(const run::RunFolder& a, const run::RunFolder& b);

/// Facts that do not forbid a comparison but that the user should know: missing files, or an env or
/// policy plugin of the same name from another build.
std::vector<std::string> ComparabilityNotes(const run::RunFolder& a, const run::RunFolder& b);

}  // namespace dp_bench::compare
