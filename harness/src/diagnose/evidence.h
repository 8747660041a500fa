// The tables, plots and remarks of a diagnosis report, from instrumented losses and the log.
// Includes LibTorch.
#pragma once

#include <optional>
#include <string>

#include "diagnose/diagnosis_report.h"
#include "diagnose/probe.h"

namespace dp_bench::diagnose {

/// What the evidence is made of; parts may be missing.
struct EvidenceSources {
  const ProcessSample* sample = nullptr;
  std::optional<NoiseSchedulerConfig> scheduler = std::nullopt;
  const LogCurves* log = nullptr;
  std::string precision = {};  // of the network in training
};

/// Adds tables, plots, notes and loss statistics.
void AddEvidence(const EvidenceSources& sources, Diagnosis* diagnosis);

}  // namespace dp_bench::diagnose
