// A folder that other programs plan with, without code of dp_bench:
//   encoder.onnx or encoder.pt      the graphs of policy_graphs.h
//   denoiser.onnx or denoiser.pt
//   sampler.json                    inputs, outputs, and the sampling loop as numbers
//                                   (docs/exporting.md)
#pragma once

#include <filesystem>

#include "graph/policy_graphs.h"

namespace dp_bench::graph {

enum class FileFormat { kTorchScript, kOnnx };

/// Writes the files into an existing folder. Throws Error{kConfig} for an operator that the format
/// lacks, Error{kIo}.
void WriteExportedPolicy(const std::filesystem::path& folder, const PolicyGraphs& graphs,
                         FileFormat format);

}  // namespace dp_bench::graph
