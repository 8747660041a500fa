// The two graphs of a diffusion policy: the observation encoder runs once per plan, the denoiser
// once per sampling step. And the folder with which other programs plan, without code of dp_bench:
//   encoder.onnx or encoder.pt      the graphs
//   denoiser.onnx or denoiser.pt
//   sampler.json                    inputs, outputs, and the sampling loop as numbers
//                                   (docs/exporting.md)
#pragma once

#include <filesystem>

#include "dp_bench/policy.h"
#include "graph/trace.h"
#include "policy/sampling.h"

namespace dp_bench::graph {

/// An observation key and the encoder's input that takes it.
struct EncoderInput {
  KeySpec key;
  std::string input;
};

/// What another program needs to plan with a policy.
struct PolicyGraphs {
  PolicySpec spec;
  std::vector<EncoderInput> observations;
  TracedGraph encoder;  // observations [B, To, shape...] in raw units -> condition [B, To, Do]
  TracedGraph
      denoiser;  // sample [B, T, D], time [B], condition (none with inpainting) -> [B, T, D]
  std::int64_t sample_dim = 0;  // D: Da, or Da + Do with inpainting
  policy::SamplingPlan sampling;
  std::vector<double> action_scale;  // action = (normalized action - offset) / scale
  std::vector<double> action_offset;
};

/// Records the graphs of `policy`, which has its weights and normalizer and is on the CPU. It is
/// put into evaluation mode and no longer asks for gradients. Throws Error{kConfig} for a policy
/// that is not a policy::DiffusionPolicy.
PolicyGraphs MakePolicyGraphs(Policy& policy, const Normalizer& normalizer);

enum class FileFormat { kTorchScript, kOnnx };

/// Writes the files into an existing folder. Throws Error{kConfig} for an operator that the format
/// lacks, Error{kIo}.
void WriteExportedPolicy(const std::filesystem::path& folder, const PolicyGraphs& graphs,
                         FileFormat format);

}  // namespace dp_bench::graph
