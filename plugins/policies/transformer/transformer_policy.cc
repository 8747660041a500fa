// See transformer_policy.h.
#include "transformer_policy.h"

#include <utility>

#include "hybrid_obs_encoder.h"
#include "transformer_denoiser.h"

namespace dp_bench::transformer {

std::unique_ptr<common::DiffusionPolicy> MakePolicy(const Config& params, const PolicySpec& spec) {
  common::DiffusionPolicy::Model model;
  model.obs_encoder = std::make_unique<common::HybridObsEncoder>(params, spec, *model.module);
  model.denoiser = std::make_unique<common::TransformerDenoiser>(
      params, spec, model.obs_encoder->feature_dim(), *model.module);
  return std::make_unique<common::DiffusionPolicy>("transformer", params, spec, std::move(model));
}

}  // namespace dp_bench::transformer
