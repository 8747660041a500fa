#include "serve/protocol.h"

#include <array>

#include "core/errors.h"
#include "dp_bench/build_id.h"

namespace dp_bench::serve {

std::string_view Name(Refusal refusal) {
  constexpr std::array kNames = {"bad_request", "overloaded", "failed"};
  return kNames.at(static_cast<std::size_t>(refusal));
}

std::optional<net::HttpAnswer> Protocol::Health(std::string_view path) const {
  if (path != "/healthz") return std::nullopt;
  return net::HttpAnswer{.body = "OK\n"};
}

std::unique_ptr<Protocol> MakeProtocol(std::string_view name, const std::string& api_key) {
  if (name == "openpi") return MakeOpenPi();
  if (name == "vla_eval") return MakeVlaEval();
  if (name == "starvla") return MakeStarVla();
  if (name == "groot") return MakeGroot(api_key);
  throw ConfigError("expected one of the protocols openpi, vla_eval, groot and starvla, found '{}'",
                    name);
}

wire::Map Metadata(const PolicyInfo& info, const KeyMap& keys, const Protocol& protocol) {
  const Horizons& horizons = info.spec.horizons;
  wire::Map own = {{"version", std::string(kVersion)},
                   {"policy", info.name},
                   {"checkpoint_sha256", info.checkpoint_sha256},
                   {"deterministic", true},
                   {"micro_batch", std::int64_t{info.micro_batch}},
                   {"n_obs_steps", std::int64_t{horizons.n_obs_steps}},
                   {"n_action_steps", std::int64_t{horizons.n_action_steps}},
                   {"keys", Describe(keys)}};
  if (horizons.temporal_ensemble_coeff && !protocol.gives_single_actions()) {
    own.Add("temporal_ensemble_coeff", *horizons.temporal_ensemble_coeff);
  }
  return {{"dp_bench", std::move(own)},
          {"action_horizon", std::int64_t{horizons.n_action_steps}},
          {"action_dim", info.spec.shape_meta.action_dim()}};
}

}  // namespace dp_bench::serve
