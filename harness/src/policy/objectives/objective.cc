// See objective.h.
#include "policy/objectives/objective.h"

#include <string>
#include <utility>

#include "core/errors.h"
#include "policy/networks/loss_weights.h"
#include "policy/noise_scheduler.h"
#include "policy/objectives/consistency_objective.h"
#include "policy/objectives/diffusion_objective.h"

namespace dp_bench::policy {
namespace {

// The weights are those of the errors of a denoiser.
void RefuseTimestepWeighting(const Config& params, const std::string& objective) {
  const TimestepWeighting weighting = TimestepWeighting::FromConfig(params);
  if (weighting.kind == "none") return;
  throw ConfigError("{}: expected none with objective {}, found {}", params.Where("loss_weighting"),
                    objective, weighting.kind);
}

}  // namespace

void Objective::LearnFrom(const Objective& /*teacher*/) {
  throw ConfigError(
      "training.teacher: only policy.params.objective=consistency learns from a teacher");
}

std::unique_ptr<Objective> MakeObjective(const Config& params) {
  const std::string objective = params.GetChoice(
      "objective", {"diffusion", "flow_matching", "mip", "consistency", "regression"},
      "what the network learns: to remove noise (noise_scheduler), the velocity of a straight path "
      "from noise to action (flow_matching), the action in two passes without noise at inference "
      "(mip), to jump to the end of a diffusion (consistency; see `dp_bench distill`), or the "
      "action in one pass without any noise (regression)");
  const auto has_section = [&](const char* name) { return objective == name || params.Has(name); };
  // sections of other objectives may stay in a config, with correct keys
  std::unique_ptr<Objective> flow_matching;
  std::unique_ptr<Objective> mip;
  if (has_section("flow_matching")) flow_matching = MakeFlowMatching(params.Sub("flow_matching"));
  if (has_section("mip")) mip = MakeMip(params.Sub("mip"));
  if (has_section("consistency")) ConsistencyConfig::FromConfig(params.Sub("consistency"));
  if (objective == "diffusion") return std::make_unique<DiffusionObjective>(params);

  RefuseTimestepWeighting(params, objective);
  if (objective == "consistency") return std::make_unique<ConsistencyObjective>(params);
  if (params.Has("noise_scheduler")) {
    NoiseSchedulerConfig::FromConfig(params.Sub("noise_scheduler"));
  }
  if (objective == "regression") return MakeRegression();
  return objective == "mip" ? std::move(mip) : std::move(flow_matching);
}

}  // namespace dp_bench::policy
