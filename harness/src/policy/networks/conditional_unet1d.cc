// See conditional_unet1d.h. The network exists twice over the same parameters: on [C, T, B] and on
// [B, C, T].
#include "policy/networks/conditional_unet1d.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/networks/denoiser.h"
#include "dp_bench/stage_trace.h"
#include "policy/kernels/fused_norm.h"
#include "policy/kernels/gradient_checkpoint.h"
#include "policy/kernels/loop_tensors.h"
#include "policy/networks/sinusoidal_embedding.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// The last block ignores `n_groups`, as it does upstream and in LeRobot.
constexpr std::int64_t kFinalGroups = 8;

std::shared_ptr<torch::nn::Module> AddContainer(torch::nn::Module& parent,
                                                const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

void CheckConfig(const UnetConfig& config) {
  for (const std::int64_t dim : config.down_dims) {
    if (dim <= 0 || dim % config.n_groups != 0) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("down_dims has {}; every entry must be a positive multiple of "
                              "n_groups = {}",
                              dim, config.n_groups));
    }
  }
  if (config.down_dims.front() % kFinalGroups != 0) {
    throw Error(ErrorCode::kConfig,
                fmt::format("down_dims starts with {}; it must be a multiple of {}",
                            config.down_dims.front(), kFinalGroups));
  }
  if (config.diffusion_step_embed_dim < 4 || config.diffusion_step_embed_dim % 2 != 0) {
    throw Error(ErrorCode::kConfig, fmt::format("diffusion_step_embed_dim is {}; it must be even "
                                                "and at least 4",
                                                config.diffusion_step_embed_dim));
  }
}

// x [B, C, T] at the resolution of `level`, which starts at 1.
void TraceLevel(const char* way, std::size_t level, const Tensor& x) {
  if (IsTracingStages()) TraceStage(fmt::format("unet: {} {}", way, level), x);
}

// The same for x [C, T, B].
void TraceLevelTimeMajor(const char* way, std::size_t level, const Tensor& x) {
  if (IsTracingStages()) TraceLevel(way, level, x.permute({2, 0, 1}));
}

// Returns x as a separate node. The gradients of its two uses in the following block are then
// summed before the gradient of the skip connection is added, whether or not the block runs as one
// node.
Tensor Apart(const Tensor& x) { return x.view_as(x); }

}  // namespace

Conv1dBlockImpl::Conv1dBlockImpl(std::int64_t in_channels, std::int64_t out_channels,
                                 std::int64_t kernel_size, std::int64_t n_groups) {
  const auto block = AddContainer(*this, "block");
  conv_ = block->register_module(
      "0", TimeConv(TimeConvKind::kSame, in_channels, out_channels, kernel_size));
  norm_ = block->register_module("1", torch::nn::GroupNorm(n_groups, out_channels));
}

Tensor Conv1dBlockImpl::forward(const Tensor& x) { return torch::mish(norm_(conv_(x))); }

Tensor Conv1dBlockImpl::ForwardTimeMajor(const Tensor& x, const Tensor& film,
                                         const Tensor& residual) {
  return NormMishFilm(conv_->ForwardTimeMajor(x),
                      {.bias = conv_->bias(),
                       .gamma = norm_->weight,
                       .beta = norm_->bias,
                       .film = film,
                       .residual = residual},
                      norm_->options.num_groups(), norm_->options.eps());
}

ConditionalResidualBlock1dImpl::ConditionalResidualBlock1dImpl(std::int64_t in_channels,
                                                               std::int64_t out_channels,
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

Tensor ConditionalResidualBlock1dImpl::forward(const Tensor& x, const Tensor& cond) {
  Tensor out = conv1_(x);
  const std::int64_t channels = out.size(1);
  const Tensor film = cond_encoder_(cond).unsqueeze(-1);
  if (film.size(1) == channels) {
    out = out + film;
  } else {
    out = film.narrow(1, 0, channels) * out + film.narrow(1, channels, channels);
  }
  return conv2_(out) + (residual_conv_.is_empty() ? x : residual_conv_(x));
}

Tensor ConditionalResidualBlock1dImpl::ForwardTimeMajor(const Tensor& x, const Tensor& film) {
  const Tensor hidden = conv1_->ForwardTimeMajor(x, film, /*residual=*/{});
  const Tensor shortcut =
      residual_conv_.is_empty() ? x : residual_conv_->ForwardTimeMajorWithBias(x);
  return conv2_->ForwardTimeMajor(hidden, /*film=*/{}, shortcut);
}

ConditionalUnet1dImpl::ConditionalUnet1dImpl(const UnetConfig& config) : config_(config) {
  CheckConfig(config);
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

bool ConditionalUnet1dImpl::IsTimeMajor(const Tensor& sample) { return UsesOwnLoops(sample); }

Tensor ConditionalUnet1dImpl::EmbedTimes(const Tensor& times) {
  const Tensor code = SinusoidalEmbedding(times, config_.diffusion_step_embed_dim);
  Tensor embedding = ApplyLinear(step_linear2_, TokenMish(ApplyLinear(step_linear1_, code)));
  TraceStage("unet: timestep embedding", embedding);
  return embedding;
}

Tensor ConditionalUnet1dImpl::forward(const Tensor& sample, const Tensor& times,
                                      const Tensor& global_cond) {
  if (!IsTimeMajor(sample)) return ForwardReference(sample, times, global_cond);

  // every block's FiLM vectors, [2C, B], from the same conditioning vector [E + G, B]
  const Tensor cond =
      torch::mish(torch::cat({EmbedTimes(times), global_cond}, /*dim=*/1)).t().contiguous();
  std::vector<Tensor> films;
  for (const ConditionalResidualBlock1d& block : blocks_) {
    const torch::nn::Linear& linear = block->cond_encoder();
    films.push_back(torch::addmm(linear->bias.unsqueeze(1), linear->weight, cond));
  }
  return RunTimeMajor(sample, films);
}

Tensor ConditionalUnet1dImpl::RunBlock(ConditionalResidualBlock1d block, BlockForward function,
                                       const Tensor& x, const Tensor& cond) const {
  if (!is_checkpointing_) return (*block.*function)(x, cond);
  using Tensors = CheckpointedBlock::Tensors;
  const auto run = [block, function](const Tensors& inputs, DropoutMasks*) mutable {
    return Tensors{(*block.*function)(inputs[0], inputs[1])};
  };
  return RunCheckpointed({.modules = {block.ptr()}, .run = run}, {x, cond})[0];
}

Tensor ConditionalUnet1dImpl::RunTimeMajor(const Tensor& sample, const std::vector<Tensor>& films) {
  auto run = [&, film = films.begin()](const ConditionalResidualBlock1d& block,
                                       const Tensor& in) mutable {
    return RunBlock(block, &ConditionalResidualBlock1dImpl::ForwardTimeMajor, in, *film++);
  };
  Tensor x = sample.permute({2, 1, 0}).contiguous();  // [Da, T, B]
  std::vector<Tensor> skips;
  for (Level& level : down_) {
    x = run(level.block2, run(level.block1, x));
    skips.push_back(x);
    TraceLevelTimeMajor("down", skips.size(), x);
    if (!level.resample.is_empty()) x = level.resample->ForwardTimeMajorWithBias(x);
  }
  x = Apart(x);
  for (const ConditionalResidualBlock1d& block : mid_) x = run(block, x);
  if (IsTracingStages()) TraceStage("unet: middle", x.permute({2, 0, 1}));
  for (Level& level : up_) {
    x = torch::cat({x, skips.back()}, /*dim=*/0);
    skips.pop_back();
    x = run(level.block2, run(level.block1, x));
    x = level.resample->ForwardTimeMajorWithBias(x);
    TraceLevelTimeMajor("up", skips.size(), x);
  }
  x = final_block_->ForwardTimeMajor(x, /*film=*/{}, /*residual=*/{});
  return final_conv_->ForwardTimeMajorWithBias(x).permute({2, 1, 0}).contiguous();
}

Tensor ConditionalUnet1dImpl::ForwardReference(const Tensor& sample, const Tensor& times,
                                               const Tensor& global_cond) {
  Tensor x = sample.transpose(1, 2);  // [B, Da, T]
  const Tensor cond = torch::mish(torch::cat({EmbedTimes(times), global_cond}, /*dim=*/1));
  const auto run = [&](const ConditionalResidualBlock1d& block, const Tensor& in) {
    return RunBlock(block, &ConditionalResidualBlock1dImpl::forward, in, cond);
  };

  std::vector<Tensor> skips;
  for (Level& level : down_) {
    x = run(level.block2, run(level.block1, x));
    skips.push_back(x);
    TraceLevel("down", skips.size(), x);
    if (!level.resample.is_empty()) x = level.resample(x);
  }
  x = Apart(x);
  for (const ConditionalResidualBlock1d& block : mid_) x = run(block, x);
  TraceStage("unet: middle", x);
  for (Level& level : up_) {
    x = torch::cat({x, skips.back()}, /*dim=*/1);
    skips.pop_back();
    x = level.resample(run(level.block2, run(level.block1, x)));
    TraceLevel("up", skips.size(), x);
  }
  return final_conv_(final_block_(x)).transpose(1, 2);
}

ConditionalUnet1dImpl::Conditioning ConditionalUnet1dImpl::Condition(
    const std::vector<double>& times, const Tensor& global_cond) {
  if (!IsTimeMajor(global_cond)) return {times, global_cond, {}, {}};
  const std::int64_t embed = config_.diffusion_step_embed_dim;
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

  // FiLM is linear in mish(cat[embedding, global_cond]), so the two parts can be computed
  // separately and added
  if (!of_time_.defined() || cached_times_ != times) {
    const Tensor code = EmbedTimes(torch::tensor(times, torch::kFloat32).to(global_cond.device()));
    of_time_ =
        RowProduct(PositionIndependentMish(code), film_weight_.narrow(1, 0, embed)) + film_bias_;
    cached_times_ = times;
  }
  if (config_.global_cond_dim == 0) {
    return {times, global_cond, of_time_,
            torch::zeros({film_weight_.size(0), global_cond.size(0)}, global_cond.options())};
  }
  const Tensor obs_weight = film_weight_.narrow(1, embed, config_.global_cond_dim);
  return {times, global_cond, of_time_,
          RowProduct(PositionIndependentMish(global_cond), obs_weight).t()};
}

Tensor ConditionalUnet1dImpl::Predict(const Tensor& sample, const Conditioning& conditioning,
                                      std::int64_t step) {
  if (!conditioning.of_obs.defined()) {
    const double time = conditioning.times[static_cast<std::size_t>(step)];
    return ForwardReference(sample, torch::full({sample.size(0)}, time, sample.options()),
                            conditioning.global_cond);
  }
  const Tensor all = conditioning.of_obs + conditioning.of_time.select(0, step).unsqueeze(1);
  std::vector<Tensor> films;
  std::int64_t begin = 0;
  for (const ConditionalResidualBlock1d& block : blocks_) {
    const std::int64_t rows = block->cond_encoder()->bias.size(0);
    films.push_back(all.narrow(0, begin, rows));
    begin += rows;
  }
  return RunTimeMajor(sample, films);
}

void ConditionalUnet1dImpl::DropCaches() {
  film_weight_.reset();
  film_bias_.reset();
  of_time_.reset();
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* conv = dynamic_cast<TimeConvImpl*>(module.get())) conv->DropCache();
  }
}

namespace {

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
    throw Error(ErrorCode::kConfig, fmt::format("{} has {} levels; 1 to 12 make sense",
                                                params.Where("down_dims"), c.down_dims.size()));
  }
  const std::int64_t factor = std::int64_t{1} << (c.down_dims.size() - 1);
  if (spec.horizons.horizon % factor != 0) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("horizon is {}; {} levels of {} need a multiple of {}", spec.horizons.horizon,
                    c.down_dims.size(), params.Where("down_dims"), factor));
  }
  return c;
}

// The UNet as a denoiser: it sees the observation window as one vector.
class UnetDenoiser final : public Denoiser {
 public:
  UnetDenoiser(const UnetConfig& config, torch::nn::Module& parent)
      : unet_(parent.register_module("unet", ConditionalUnet1d(config))) {}

  Tensor Forward(const Tensor& noisy, const Tensor& times, const Tensor& cond,
                 NoiseSource* /*noise*/) override {
    const Tensor global_cond = cond.flatten(1);  // [B, To * Do]
    TraceStage("unet: global condition", global_cond);
    return unet_->forward(noisy, times, global_cond);
  }

  ConditionedDenoiser Condition(const std::vector<double>& times, const Tensor& cond) override {
    return [this, conditioning = unet_->Condition(times, cond.flatten(1))](const Tensor& naction,
                                                                           std::int64_t step) {
      return unet_->Predict(naction, conditioning, step);
    };
  }

  void DropCaches() override { unet_->DropCaches(); }
  void set_gradient_checkpointing(bool is_on) override { unet_->set_gradient_checkpointing(is_on); }

 private:
  ConditionalUnet1d unet_;
};

}  // namespace

std::unique_ptr<Denoiser> MakeUnetDenoiser(const Config& params, const PolicySpec& spec,
                                           const DenoiserChannels& channels,
                                           torch::nn::Module& parent) {
  return std::make_unique<UnetDenoiser>(ReadUnetConfig(params, spec, channels), parent);
}

}  // namespace dp_bench::policy
