// The section `env_runner.chunking` of a config: what is executed while a plan is computed, and how
// the plan takes account of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/latency_model.h"
#include "control/roll_forward.h"
#include "dp_bench/config.h"

namespace dp_bench::control {

/// How consecutive chunks are joined when a plan takes time.
enum class ChunkingMethod {
  kNaive,       // the new chunk replaces the old one as soon as it is there
  kHardPrefix,  // guidance towards the actions that are executed in any case, and no others
  kRtc,         // real-time chunking (Black et al. 2025, arXiv 2506.07339): guidance that fades
  kTrainingTimeRtc,   // the plan begins with the actions that are executed in any case, which the
                      // policy learned to continue (Black et al. 2025, arXiv 2512.05964)
  kStateRollForward,  // the plan is made for the moment in which it will be there (VLASH, arXiv
                      // 2512.01031); see roll_forward.h
  kA2c2,  // every action is corrected by the newest observation (Sendai et al. 2025, arXiv
          // 2509.23224); see correction_head.h
  kBid,   // bidirectional decoding (Liu et al. 2024, arXiv 2408.17355): the sample that
          // continues the old chunk best
};

std::string_view Name(ChunkingMethod method);
std::vector<std::string> ChunkingMethodNames();

/// How the weights of RTC fall from 1 to 0 (PrefixWeights).
enum class PrefixSchedule { kZeros, kOnes, kLinear, kExponential };

struct ChunkingConfig {
  ChunkingMethod method = ChunkingMethod::kNaive;
  int delay = 0;    // [control steps] that a plan takes
  int execute = 0;  // [control steps] from one plan to the next; 0: n_action_steps - delay

  // RTC and hard_prefix
  bool has_full_jacobian = false;
  PrefixSchedule schedule = PrefixSchedule::kExponential;
  double max_guidance_weight = 5.0;

  int n_samples = 16;        // of BID
  FollowedActions followed;  // of state_roll_forward
  LatencyModel latency;      // instead of `delay`

  // of a2c2: the file of `dp_bench correct`, and what it must be
  std::optional<std::string> corrector;
  std::optional<std::string> corrector_sha256;

  static ChunkingConfig FromConfig(const Config& section);

  /// Whether a plan is computed from the actions that are executed meanwhile.
  bool continues_chunks() const {
    return method == ChunkingMethod::kRtc || method == ChunkingMethod::kHardPrefix ||
           method == ChunkingMethod::kTrainingTimeRtc;
  }
};

/// How closely a new chunk of `n_steps` follows the old one, [n_steps] in [0, 1]: 1 before `start`,
/// falling to 0 at `end`, which is the first step that the old chunk has no action for. With
/// `start` > `end`, `end` counts. With n = end - start + 1, step i between them has w = (end - i) /
/// n, and with kExponential w * expm1(w) / (e - 1) (Black et al. 2025, eq. 5).
std::vector<float> PrefixWeights(int start, int end, int n_steps, PrefixSchedule schedule);

}  // namespace dp_bench::control
