// Combines the colour and depth features of several cameras into one vector: attention over the
// cameras of each modality, then from each modality to the other.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>

namespace dp_bench::rgbd_fusion {

/// kSeed: attention only, as in the Kuavo data challenge's policy: a camera's features reach the
/// output only through the values of the attentions. kResidual: pre-norm residual attention on
/// tokens with camera embeddings, and a final norm.
enum class FusionKind { kSeed, kResidual };

struct FusionConfig {
  FusionKind kind = FusionKind::kSeed;
  std::int64_t n_cameras = 3;
  std::int64_t token_dim = 128;  // d, features of one camera
  std::int64_t n_head = 8;
  bool has_depth = true;
};

class CameraFusionImpl : public torch::nn::Module {
 public:
  explicit CameraFusionImpl(const FusionConfig& config);

  /// rgb and depth [N, n_cameras, d] (depth undefined if there is none) -> [N, feature_dim].
  torch::Tensor forward(const torch::Tensor& rgb, const torch::Tensor& depth);

  /// n_cameras * d, twice that with depth.
  std::int64_t feature_dim() const;

 private:
  /// The modules for the tokens of one modality.
  struct Modality {
    torch::nn::MultiheadAttention self{nullptr};   // over the cameras
    torch::nn::MultiheadAttention cross{nullptr};  // to the other modality; null without depth
    torch::Tensor camera_embedding;  // [n_cameras, d]; only kResidual has this and the norms
    torch::nn::LayerNorm norm_self{nullptr};
    torch::nn::LayerNorm norm_cross{nullptr};
    torch::nn::LayerNorm norm_memory{nullptr};  // for the memory of `cross`
    torch::nn::LayerNorm norm_out{nullptr};
  };

  Modality AddModality(const std::string& name);
  torch::Tensor AttendCameras(const char* name, Modality& modality,
                              const torch::Tensor& tokens) const;
  torch::Tensor AttendOther(const char* name, Modality& modality, const torch::Tensor& tokens,
                            const torch::Tensor& other) const;
  torch::Tensor Leave(Modality& modality, const torch::Tensor& tokens) const;

  FusionConfig config_;
  Modality rgb_;
  Modality depth_;
};
TORCH_MODULE(CameraFusion);

}  // namespace dp_bench::rgbd_fusion
