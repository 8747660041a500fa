// What a command will cost, as its dry run predicts it from a small part of the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/machine.h"

namespace dp_bench::run {

struct CostPrediction {
  double wall_s = 0.0;
  double cpu_s = 0.0;
  std::int64_t peak_bytes = 0;     // memory of the trial, with its envs
  double disk_bytes = 0.0;         // without videos
  std::optional<double> energy_j;  // none if it cannot be read
  std::string tried;               // what it follows from: "5 training steps"
};

// The parts of a prediction.
inline constexpr const char* kPredictedCollection = "collect";
inline constexpr const char* kPredictedTraining = "train";
inline constexpr const char* kPredictedEvaluation = "evaluate";

using CostPredictions = std::map<std::string, CostPrediction>;

/// `factor` times what the trial took.
CostPrediction PredictionFrom(const core::Cost& trial, double factor, std::string tried);

/// The same work `n` times, one after the other.
CostPrediction Repeated(CostPrediction once, std::size_t n);

/// One after the other.
CostPrediction Sum(const CostPredictions& parts);

/// "about 0:12:30, processor time 0:21:18, 812 MiB of memory and 3.1 MiB on disk without videos".
std::string Describe(const CostPrediction& prediction);

/// Throws Error{kIo}.
void WritePredictions(const std::filesystem::path& file, const CostPredictions& parts);

/// Throws Error{kData} or {kIo}.
CostPredictions ReadPredictions(const std::filesystem::path& file);

}  // namespace dp_bench::run
