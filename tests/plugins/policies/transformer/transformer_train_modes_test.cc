// The transformer policy under autocast and with gradient checkpointing.
#include "harness/policy/train_modes.h"
#include "support/plugin_policy.h"
namespace dp_bench::transformer {
namespace {

constexpr std::int64_t kRows = 6;

std::unique_ptr<Policy> MakePolicy(const std::string& more) {
  auto policy = CreateSmallDiffusion(R"({"n_layer": 4, "n_head": 4, "n_emb": 64)" + more + "}");
  // with fresh weights, attention and feed-forward are small compared with the residual stream
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : policy->module().parameters()) {
    if (parameter.dim() == 2) parameter.mul_(4.0);
  }
  return policy;
}

Batch MakeBatch() {
  NoiseSource source = NoiseOfRows(kRows, /*major=*/3);
  return SmallBatch(source, kRows);
}

// of both directions of a norm, with and without memory, masks, dropout
const std::vector<std::string> kVariants = {
    R"(, "p_drop_emb": 0.0, "p_drop_attn": 0.0)", R"(, "p_drop_emb": 0.1, "p_drop_attn": 0.3)",
    R"(, "p_drop_attn": 0.3, "norm": "post", "causal_attn": true)",
    R"(, "p_drop_attn": 0.3, "n_cond_layers": 2, "causal_attn": true)",
    R"(, "p_drop_attn": 0.3, "obs_as_cond": false, "time_as_cond": false, "qkv_bias": false)"};

TEST(TransformerTrainModes, AutocastGivesNearlyTheSameGradients) {
  for (const std::string& variant : kVariants) {
    SCOPED_TRACE(variant);
    policy::ExpectAutocastGivesNearlyTheSameGradients(*MakePolicy(variant), MakeBatch());
  }
}

TEST(TransformerTrainModes, CheckpointingChangesNoBit) {
  for (const std::string& variant : kVariants) {
    SCOPED_TRACE(variant);
    const auto make = [&](bool is_checkpointing) {
      return MakePolicy(variant + R"(, "gradient_checkpointing": )" +
                        (is_checkpointing ? "true" : "false"));
    };
    policy::ExpectCheckpointingChangesNoBit(make, MakeBatch());
    policy::ExpectCheckpointingSavesMemory(make, 0.7);
  }
}

}  // namespace
}  // namespace dp_bench::transformer
