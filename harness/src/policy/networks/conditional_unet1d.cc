// The noise prediction network of Diffusion Policy (Chi et al. 2023, Sec. IV-A; Janner et al. 2022
// for the UNet): 1-D convolutions over time, conditioned on the diffusion timestep and the
// observations through FiLM. Tensor names and shapes are those of LeRobot's `diffusion.unet`, so
// weights can be exchanged.
#include <fmt/format.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <vector>

#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/networks/denoiser.h"
#include "dp_bench/stage_trace.h"
#include "policy/kernels/fused_norm.h"
#include "policy/kernels/gradient_checkpoint.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/networks/sinusoidal_embedding.h"
#include "policy/networks/time_conv.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// Sizes and variants of the UNet.
struct UnetConfig {
  std::int64_t action_dim = 0;       // Da
  std::int64_t global_cond_dim = 0;  // G, per row: To * Do
  std::int64_t diffusion_step_embed_dim = 128;
  std::vector<std::int64_t> down_dims = {64, 128, 256};
  std::int64_t kernel_size = 5;
  std::int64_t n_groups = 8;       // of each GroupNorm
  bool cond_predict_scale = true;  // FiLM scales and offsets; else it offsets alone
};

// The network runs on [C, T, B] with time_conv.h and fused_norm.h for float32 on the CPU, and with
// LibTorch's operators on [B, C, T] elsewhere. Both give the same numbers up to rounding.
enum class Layout { kTimeMajor, kBatchMajor };

Layout LayoutOf(const Tensor& sample) {
  return UsesOwnLoops(sample) ? Layout::kTimeMajor : Layout::kBatchMajor;
}

// The last block ignores `n_groups`, as it does upstream and in LeRobot.
constexpr std::int64_t kFinalGroups = 8;

std::shared_ptr<torch::nn::Module> AddContainer(torch::nn::Module& parent,
                                                const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

// Throws for settings that cannot work.
const UnetConfig& Checked(const UnetConfig& config) {
  for (const std::int64_t dim : config.down_dims) {
    if (dim <= 0 || dim % config.n_groups != 0) {
      throw ConfigError(
          "down_dims has {}; every entry must be a positive multiple of n_groups = {}", dim,
          config.n_groups);
    }
  }
  if (config.down_dims.front() % kFinalGroups != 0) {
    throw ConfigError("down_dims starts with {}; it must be a multiple of {}",
                      config.down_dims.front(), kFinalGroups);
  }
  if (config.diffusion_step_embed_dim < 4 || config.diffusion_step_embed_dim % 2 != 0) {
    throw ConfigError("diffusion_step_embed_dim is {}; it must be even and at least 4",
                      config.diffusion_step_embed_dim);
  }
  return config;
}

// x at one place of the network, traced as [B, C, T].
void TraceActivations(Layout layout, const std::string& name, const Tensor& x) {
  if (!IsTracingStages()) return;
  TraceStage(name, layout == Layout::kTimeMajor ? x.permute({2, 0, 1}) : x);
}

// Returns x as a separate node. The gradients of its two uses in the following block are then
// summed before the gradient of the skip connection is added, whether or not the block runs as one
// node.
Tensor Apart(const Tensor& x) { return x.view_as(x); }

Tensor Convolve(TimeConv& conv, Layout layout, const Tensor& x) {
  return layout == Layout::kTimeMajor ? conv->ForwardTimeMajorWithBias(x) : conv(x);
}

// Convolution, GroupNorm, Mish.
class Conv1dBlockImpl : public torch::nn::Module {
 public:
  Conv1dBlockImpl(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  std::int64_t n_groups) {
    const auto block = AddContainer(*this, "block");
    conv_ = block->register_module(
        "0", TimeConv(TimeConvKind::kSame, in_channels, out_channels, kernel_size));
    norm_ = block->register_module("1", torch::nn::GroupNorm(n_groups, out_channels));
  }

  // x [B, I, T] -> [B, O, T].
  Tensor forward(const Tensor& x) { return torch::mish(norm_(conv_(x))); }

  // x [I, T, B] -> [O, T, B]; `film` and `residual` as in NormInputs, may be undefined.
  Tensor ForwardTimeMajor(const Tensor& x, const Tensor& film, const Tensor& residual) {
    return NormMishFilm(conv_->ForwardTimeMajor(x),
                        {.bias = conv_->bias(),
                         .gamma = norm_->weight,
                         .beta = norm_->bias,
                         .film = film,
                         .residual = residual},
                        norm_->options.num_groups(), norm_->options.eps());
  }

 private:
  TimeConv conv_{nullptr};
  torch::nn::GroupNorm norm_{nullptr};
};
TORCH_MODULE(Conv1dBlock);

// Two Conv1dBlocks with FiLM between them, and a shortcut around both.
class ConditionalResidualBlock1dImpl : public torch::nn::Module {
 public:
  ConditionalResidualBlock1dImpl(std::int64_t in_channels, std::int64_t out_channels,
                                 const UnetConfig& config) {
    conv1_ = register_module(
        "conv1", Conv1dBlock(in_channels, out_channels, config.kernel_size, config.n_groups));
    const std::int64_t cond_dim = config.diffusion_step_embed_dim + config.global_cond_dim;
    cond_encoder_ = AddContainer(*this, "cond_encoder")
                        ->register_module("1", torch::nn::Linear(cond_dim, config.cond_predict_scale
                                                                               ? 2 * out_channels
                                                                               : out_channels));
    conv2_ = register_module(
        "conv2", Conv1dBlock(out_channels, out_channels, config.kernel_size, config.n_groups));
    if (in_channels != out_channels) {
      residual_conv_ = register_module("residual_conv",
                                       TimeConv(TimeConvKind::kSame, in_channels, out_channels, 1));
    }
  }

  // kBatchMajor: x [B, I, T] -> [B, O, T]. kTimeMajor: x [I, T, B] -> [O, T, B]. `film` is what
  // cond_encoder makes of the condition, [B, 2O or O] or [2O or O, B].
  Tensor forward(const Tensor& x, const Tensor& film, Layout layout) {
    if (layout == Layout::kTimeMajor) {
      const Tensor hidden = conv1_->ForwardTimeMajor(x, film, /*residual=*/{});
      return conv2_->ForwardTimeMajor(hidden, /*film=*/{}, Shortcut(x, layout));
    }
    Tensor out = conv1_(x);
    const std::int64_t channels = out.size(1);
    const Tensor each_step = film.unsqueeze(-1);
    if (film.size(1) == channels) {
      out = out + each_step;
    } else {
      out = each_step.narrow(1, 0, channels) * out + each_step.narrow(1, channels, channels);
    }
    return conv2_(out) + Shortcut(x, layout);
  }

  const torch::nn::Linear& cond_encoder() const { return cond_encoder_; }

 private:
  Tensor Shortcut(const Tensor& x, Layout layout) {
    return residual_conv_.is_empty() ? x : Convolve(residual_conv_, layout, x);
  }

  Conv1dBlock conv1_{nullptr};
  Conv1dBlock conv2_{nullptr};
  torch::nn::Linear cond_encoder_{nullptr};
  TimeConv residual_conv_{nullptr};  // null if the number of channels does not change
};
TORCH_MODULE(ConditionalResidualBlock1d);

// The denoiser sees the observation window as one vector [B, G].
class ConditionalUnet1d final : public torch::nn::Module, public Denoiser {
 public:
  explicit ConditionalUnet1d(const UnetConfig& config);

  Tensor Forward(const Tensor& noisy, const Tensor& times, const Tensor& cond,
                 NoiseSource* noise) override;
  ConditionedDenoiser Condition(const std::vector<double>& times, const Tensor& cond) override;
  void DropCaches() override;
  void set_gradient_checkpointing(bool is_on) override { is_checkpointing_ = is_on; }

 private:
  struct Level {
    ConditionalResidualBlock1d block1{nullptr};
    ConditionalResidualBlock1d block2{nullptr};
    TimeConv resample{nullptr};  // null in the last level on the way down
  };

  Tensor RunBlock(ConditionalResidualBlock1d block, const Tensor& x, const Tensor& film,
                  Layout layout) const;
  Tensor Run(const Tensor& sample, const std::vector<Tensor>& films, Layout layout);
  Tensor EmbedTimes(const Tensor& times);
  void CacheTimes(const std::vector<double>& times, const Tensor& like);

  UnetConfig config_;
  SinusoidalEmbedding time_code_;
  bool is_checkpointing_ = false;
  torch::nn::Linear step_linear1_{nullptr};
  torch::nn::Linear step_linear2_{nullptr};
  std::vector<Level> down_;
  std::vector<ConditionalResidualBlock1d> mid_;
  std::vector<Level> up_;
  Conv1dBlock final_block_{nullptr};
  TimeConv final_conv_{nullptr};

  std::vector<ConditionalResidualBlock1d> blocks_;  // in the order of execution
  Tensor film_weight_;                              // cache: all cond_encoders, [F, E + G]
  Tensor film_bias_;                                // cache: [F]
  std::vector<double> cached_times_;
  Tensor of_time_;  // cache: FiLM's part of cached_times_, [n_times, F]
};

ConditionalUnet1d::ConditionalUnet1d(const UnetConfig& config)
    : config_(Checked(config)), time_code_(config.diffusion_step_embed_dim) {
  const std::int64_t embed = config.diffusion_step_embed_dim;
  const auto step_encoder = AddContainer(*this, "diffusion_step_encoder");
  step_linear1_ = step_encoder->register_module("1", torch::nn::Linear(embed, 4 * embed));
  step_linear2_ = step_encoder->register_module("3", torch::nn::Linear(4 * embed, embed));

  // encoder: halves T after every level but the last
  const std::vector<std::int64_t>& dims = config.down_dims;
  const auto down = AddContainer(*this, "down_modules");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto level = AddContainer(*down, std::to_string(i));
    const std::int64_t in = i == 0 ? config.action_dim : dims[i - 1];
    down_.push_back(
        {level->register_module("0", ConditionalResidualBlock1d(in, dims[i], config)),
         level->register_module("1", ConditionalResidualBlock1d(dims[i], dims[i], config))});
    if (i + 1 == dims.size()) break;
    down_[i].resample =
        level->register_module("2", TimeConv(TimeConvKind::kDown, dims[i], dims[i], 3));
  }

  const auto mid = AddContainer(*this, "mid_modules");
  for (int i = 0; i < 2; ++i) {
    mid_.push_back(mid->register_module(
        std::to_string(i), ConditionalResidualBlock1d(dims.back(), dims.back(), config)));
  }

  // decoder: reads the skip connection of its level, doubles T after every level
  const auto up = AddContainer(*this, "up_modules");
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    const auto level = AddContainer(*up, std::to_string(i));
    const std::int64_t in = 2 * dims[dims.size() - 1 - i];
    const std::int64_t out = dims[dims.size() - 2 - i];
    up_.push_back({level->register_module("0", ConditionalResidualBlock1d(in, out, config)),
                   level->register_module("1", ConditionalResidualBlock1d(out, out, config)),
                   level->register_module("2", TimeConv(TimeConvKind::kUp, out, out, 4))});
  }

  const auto final_conv = AddContainer(*this, "final_conv");
  final_block_ = final_conv->register_module(
      "0", Conv1dBlock(dims[0], dims[0], config.kernel_size, kFinalGroups));
  final_conv_ = final_conv->register_module(
      "1", TimeConv(TimeConvKind::kSame, dims[0], config.action_dim, 1));

  for (const Level& level : down_) blocks_.insert(blocks_.end(), {level.block1, level.block2});
  blocks_.insert(blocks_.end(), mid_.begin(), mid_.end());
  for (const Level& level : up_) blocks_.insert(blocks_.end(), {level.block1, level.block2});
}

Tensor ConditionalUnet1d::EmbedTimes(const Tensor& times) {
  const Tensor code = time_code_(times);
  Tensor embedding = ApplyLinear(step_linear2_, TokenMish(ApplyLinear(step_linear1_, code)));
  TraceStage("unet: timestep embedding", embedding);
  return embedding;
}

Tensor ConditionalUnet1d::Forward(const Tensor& noisy, const Tensor& times, const Tensor& cond,
                                  NoiseSource* /*noise*/) {
  const Tensor global_cond = cond.flatten(1);  // [B, To * Do]
  TraceStage("unet: global condition", global_cond);
  const Layout layout = LayoutOf(noisy);
  // every block's FiLM vectors, from the same conditioning vector [B, E + G]
  const Tensor both = torch::mish(torch::cat({EmbedTimes(times), global_cond}, /*dim=*/1));
  const Tensor columns = layout == Layout::kTimeMajor ? both.t().contiguous() : Tensor();
  std::vector<Tensor> films;
  for (const ConditionalResidualBlock1d& block : blocks_) {
    const torch::nn::Linear& linear = block->cond_encoder();
    films.push_back(columns.defined()
                        ? torch::addmm(linear->bias.unsqueeze(1), linear->weight, columns)
                        : torch::linear(both, linear->weight, linear->bias));
  }
  return Run(noisy, films, layout);
}

Tensor ConditionalUnet1d::RunBlock(ConditionalResidualBlock1d block, const Tensor& x,
                                   const Tensor& film, Layout layout) const {
  if (!is_checkpointing_) return block(x, film, layout);
  using Tensors = CheckpointedBlock::Tensors;
  const auto run = [block, layout](const Tensors& inputs, DropoutMasks*) mutable {
    return Tensors{block(inputs[0], inputs[1], layout)};
  };
  return RunCheckpointed({.modules = {block.ptr()}, .run = run}, {x, film})[0];
}

// sample [B, T, Da] -> [B, T, Da]. `films`: for each block what its forward takes.
Tensor ConditionalUnet1d::Run(const Tensor& sample, const std::vector<Tensor>& films,
                              Layout layout) {
  const bool is_time_major = layout == Layout::kTimeMajor;
  auto run = [&, film = films.begin()](const ConditionalResidualBlock1d& block,
                                       const Tensor& in) mutable {
    return RunBlock(block, in, *film++, layout);
  };
  Tensor x = is_time_major ? sample.permute({2, 1, 0}).contiguous()  // [Da, T, B]
                           : sample.transpose(1, 2);                 // [B, Da, T]
  std::vector<Tensor> skips;
  for (Level& level : down_) {
    x = run(level.block1, x);
    x = run(level.block2, x);
    skips.push_back(x);
    TraceActivations(layout, fmt::format("unet: down {}", skips.size()), x);
    if (!level.resample.is_empty()) x = Convolve(level.resample, layout, x);
  }
  x = Apart(x);
  for (const ConditionalResidualBlock1d& block : mid_) x = run(block, x);
  TraceActivations(layout, "unet: middle", x);
  for (Level& level : up_) {
    x = torch::cat({x, skips.back()}, /*dim=*/is_time_major ? 0 : 1);
    skips.pop_back();
    x = run(level.block1, x);
    x = Convolve(level.resample, layout, run(level.block2, x));
    TraceActivations(layout, fmt::format("unet: up {}", skips.size()), x);
  }
  if (!is_time_major) return final_conv_(final_block_(x)).transpose(1, 2);
  x = final_block_->ForwardTimeMajor(x, /*film=*/{}, /*residual=*/{});
  return final_conv_->ForwardTimeMajorWithBias(x).permute({2, 1, 0}).contiguous();
}

// Computes what depends only on the weights and `times`, unless it is there from the last call.
void ConditionalUnet1d::CacheTimes(const std::vector<double>& times, const Tensor& like) {
  if (!film_weight_.defined()) {
    std::vector<Tensor> weights;
    std::vector<Tensor> biases;
    for (const ConditionalResidualBlock1d& block : blocks_) {
      weights.push_back(block->cond_encoder()->weight.detach());
      biases.push_back(block->cond_encoder()->bias.detach());
    }
    film_weight_ = torch::cat(weights);
    film_bias_ = torch::cat(biases);
    of_time_.reset();
  }
  if (of_time_.defined() && cached_times_ == times) return;
  const Tensor code = EmbedTimes(torch::tensor(times, like.options()));
  const Tensor weight = film_weight_.narrow(1, 0, config_.diffusion_step_embed_dim);
  of_time_ = RowProduct(TokenMish(code), weight) + film_bias_;
  cached_times_ = times;
}

ConditionedDenoiser ConditionalUnet1d::Condition(const std::vector<double>& times,
                                                 const Tensor& cond) {
  const Tensor global_cond = cond.flatten(1);
  const Layout layout = LayoutOf(global_cond);
  // FiLM is linear in mish(cat[embedding, global_cond]), so the two parts can be computed
  // separately and added
  CacheTimes(times, global_cond);
  Tensor of_obs;  // [B, F]
  if (config_.global_cond_dim == 0) {
    of_obs = torch::zeros({global_cond.size(0), film_weight_.size(0)}, global_cond.options());
  } else {
    const Tensor weight =
        film_weight_.narrow(1, config_.diffusion_step_embed_dim, config_.global_cond_dim);
    of_obs = RowProduct(TokenMish(global_cond), weight);
  }
  if (layout == Layout::kTimeMajor) of_obs = of_obs.t();
  return [this, layout, of_time = of_time_, of_obs](const Tensor& naction, std::int64_t step) {
    const std::int64_t channel_dim = layout == Layout::kTimeMajor ? 0 : 1;
    const Tensor all = of_obs + of_time.select(0, step).unsqueeze(1 - channel_dim);
    std::vector<Tensor> films;
    std::int64_t begin = 0;
    for (const ConditionalResidualBlock1d& block : blocks_) {
      const std::int64_t n_channels = block->cond_encoder()->bias.size(0);
      films.push_back(all.narrow(channel_dim, begin, n_channels));
      begin += n_channels;
    }
    return Run(naction, films, layout);
  };
}

void ConditionalUnet1d::DropCaches() {
  film_weight_.reset();
  film_bias_.reset();
  of_time_.reset();
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* conv = dynamic_cast<TimeConvImpl*>(module.get())) conv->DropCache();
  }
}

UnetConfig ReadUnetConfig(const Config& params, const PolicySpec& spec,
                          const DenoiserChannels& channels) {
  UnetConfig c = {.action_dim = channels.sample,
                  .global_cond_dim = spec.horizons.n_obs_steps * channels.cond};
  const ConfigKeys keys(params);
  keys("diffusion_step_embed_dim", &c.diffusion_step_embed_dim, 4, 4096,
       "channels of the embedded denoising step");
  keys("down_dims", &c.down_dims,
       "channels of the levels, 1 to 12; n levels need a horizon divisible by 2^(n-1)");
  keys("kernel_size", &c.kernel_size, 1, 63, "steps that a convolution sees");
  keys("n_groups", &c.n_groups, 1, 1024, "groups of the group norms");
  keys("cond_predict_scale", &c.cond_predict_scale,
       "the condition scales and shifts features; false: it only shifts them");

  if (c.down_dims.empty() || c.down_dims.size() > 12) {
    throw ConfigError("{} has {} levels; 1 to 12 make sense", params.Where("down_dims"),
                      c.down_dims.size());
  }
  const std::int64_t factor = std::int64_t{1} << (c.down_dims.size() - 1);
  if (spec.horizons.horizon % factor != 0) {
    throw ConfigError("horizon is {}; {} levels of {} need a multiple of {}", spec.horizons.horizon,
                      c.down_dims.size(), params.Where("down_dims"), factor);
  }
  return c;
}

}  // namespace

std::shared_ptr<Denoiser> MakeUnetDenoiser(const Config& params, const PolicySpec& spec,
                                           const DenoiserChannels& channels,
                                           torch::nn::Module& parent) {
  return parent.register_module(
      "unet", std::make_shared<ConditionalUnet1d>(ReadUnetConfig(params, spec, channels)));
}

}  // namespace dp_bench::policy
