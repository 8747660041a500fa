// From an env's expert to a data set on disk. What it holds depends on origin and number of
// episodes alone: not on workers, their order, or how often the collection was interrupted.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "collect/collect_config.h"
#include "dp_bench/env.h"

namespace dp_bench {

struct CollectRequest {
  std::function<std::unique_ptr<Env>()> env_factory;  // called by every worker; has an expert
  CollectConfig config;
  nlohmann::json origin;         // of collection_origin.h
  std::filesystem::path output;  // a new folder, or one to continue
  const std::atomic<bool>* stop = nullptr;
  double commit_seconds = 2.0;  // at most so much work is lost by a kill
};

struct SeedFailure {
  std::uint64_t seed = 0;
  std::string reason;
};

struct CollectProgress {
  int n_episodes = 0;  // kept
  int n_wanted = 0;
  int n_failed = 0;
  std::int64_t n_steps = 0;
};

using CollectProgressFn = std::function<void(const CollectProgress&)>;

struct CollectReport {
  int n_episodes = 0;  // in the data set
  int n_before = 0;    // of which it held before
  std::int64_t n_steps = 0;
  std::vector<SeedFailure> failures;  // of seeds that are not in the data set
  double wall_s = 0.0;
  bool is_interrupted = false;
};

/// The report of a folder that holds all that is asked for already; nothing when there is more to
/// do.
std::optional<CollectReport> FindCollection(const CollectRequest& request);

/// Collects until the folder holds `n_episodes`, or more when it did already. Seeds are tried in
/// order; failed ones are skipped and listed. Throws Error{kEnv} when most fail; what was collected
/// until then stays.
CollectReport Collect(const CollectRequest& request, const CollectProgressFn& progress = {});

}  // namespace dp_bench
