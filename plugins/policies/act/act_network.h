// The network of ACT (Zhao et al. 2023, "Learning Fine-Grained Bimanual Manipulation with Low-Cost
// Hardware", Sec. IV and App. C). A transformer turns the current observation and a latent
// variable into an action sequence; in training, another one encodes the demonstrated actions as
// that variable (a conditional VAE). Tensor names are those of LeRobot's ACT,
// which has no token for the task.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "dp_bench/policy/kernels/token_ops.h"
#include "dp_bench/policy/networks/transformer_layer.h"
#include "dp_bench/policy/vision/resnet.h"

namespace dp_bench::act {

/// Field names and defaults are LeRobot's (ACTConfig).
struct ActConfig {
  std::int64_t state_dim = 0;      // Ds, numbers of the robot's state; 0: none
  std::int64_t env_state_dim = 0;  // De, numbers of the env's state; 0: none
  std::int64_t task_dim = 0;       // Dk, numbers of the task key; 0: none
  bool has_cameras = false;
  std::int64_t action_dim = 0;  // Da
  std::int64_t horizon = 100;   // T, LeRobot's chunk_size
  policy::ResnetConfig backbone = {.norm = policy::NormKind::kFrozenBatch,
                                   .has_torchvision_names = true};
  std::int64_t dim_model = 512;  // d, features of a token
  std::int64_t n_heads = 8;
  std::int64_t dim_feedforward = 3200;
  bool has_relu = true;  // otherwise GELU
  bool pre_norm = false;
  std::int64_t n_encoder_layers = 4;
  std::int64_t n_decoder_layers = 1;  // as the authors' code, which returns its first layer of 7
  bool use_vae = true;
  std::int64_t n_vae_encoder_layers = 4;
  std::int64_t latent_dim = 32;  // L
  double dropout = 0.1;
};

/// The current observation, normalized. What the config does not have is undefined.
struct ActObs {
  torch::Tensor state;      // [B, Ds]
  torch::Tensor env_state;  // [B, De]
  torch::Tensor task;       // [B, Dk]
  torch::Tensor images;     // [B, n_cameras, C, H, W]
};

/// A normal distribution of the latent variable, independent per dimension.
struct LatentDistribution {
  torch::Tensor mean;     // [B, L]
  torch::Tensor log_var;  // [B, L], log(sigma^2)
};

/// Layers over tokens whose positions [T, d] are added to queries and keys in every layer.
class TransformerStackImpl : public torch::nn::Module {
 public:
  TransformerStackImpl(std::int64_t n_layers, const policy::TransformerLayerConfig& config,
                       bool has_norm);

  /// What the tokens attend to beside themselves, with positions of its own.
  struct Memory {
    torch::Tensor tokens;    // [B, S, d]; undefined for an encoder
    torch::Tensor position;  // [S, d]
  };

  /// [B, T, d] -> [B, T, d]. `inputs` has position, mask and dropout; `name` is for stage traces.
  torch::Tensor forward(const char* name, const torch::Tensor& tokens, const Memory& memory,
                        policy::LayerInputs inputs);

 private:
  std::vector<policy::TransformerLayer> layers_;
  torch::nn::LayerNorm norm_{nullptr};  // of the result; null for none
};
TORCH_MODULE(TransformerStack);

class ActNetworkImpl : public torch::nn::Module {
 public:
  explicit ActNetworkImpl(const ActConfig& config);

  /// Normalized actions [B, T, Da] for a latent [B, L]. `dropout`: null in evaluation.
  torch::Tensor forward(const ActObs& obs, const torch::Tensor& latent,
                        policy::DropoutMasks* dropout);

  /// The latent of demonstrated actions [B, T, Da], normalized; is_pad [B, T] as in Batch. Needs
  /// use_vae.
  LatentDistribution EncodeActions(const torch::Tensor& state, const torch::Tensor& naction,
                                   const torch::Tensor& is_pad, policy::DropoutMasks* dropout);

 private:
  void AddVaeEncoder(const policy::TransformerLayerConfig& layer);
  torch::Tensor CameraTokens(const torch::Tensor& images);
  void PlaceMap(std::int64_t height, std::int64_t width);

  ActConfig config_;

  // null without use_vae, the second also without a state
  TransformerStack vae_encoder_{nullptr};
  torch::nn::Linear vae_state_proj_{nullptr};
  torch::nn::Linear vae_action_proj_{nullptr};
  torch::nn::Linear vae_latent_proj_{nullptr};
  torch::nn::Embedding vae_cls_embed_{nullptr};
  torch::Tensor vae_position_;  // [1, 1 or 2 + T, d]

  policy::Resnet backbone_{nullptr};  // one for all cameras; null without, like the next
  torch::nn::Conv2d image_proj_{nullptr};
  torch::nn::Linear latent_proj_{nullptr};
  torch::nn::Linear state_proj_{nullptr};      // null without a state
  torch::nn::Linear env_state_proj_{nullptr};  // likewise
  torch::nn::Linear task_proj_{nullptr};       // null without a task key
  torch::nn::Embedding token_position_{nullptr};
  torch::nn::Embedding action_position_{nullptr};
  TransformerStack encoder_{nullptr};
  TransformerStack decoder_{nullptr};
  torch::nn::Linear action_head_{nullptr};

  torch::Tensor map_position_;  // of the places of a feature map, row by row: [h * w, d]
  std::int64_t map_width_ = 0;  // w
};
TORCH_MODULE(ActNetwork);

}  // namespace dp_bench::act
