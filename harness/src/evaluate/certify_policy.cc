#include "evaluate/certify_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/obs_history.h"
#include "core/errors.h"
#include "core/json.h"

namespace dp_bench::evaluate {
namespace {

constexpr const char* kAsked = "the policy was asked for its certificate: ";
constexpr std::size_t kMaxCompanions = 7;
constexpr int kQuestionsBetween = 7;  // not a multiple of the lengths that queues have

// Asks the policy questions, up to a batch of them at once.
class Interviewer {
 public:
  Interviewer(control::ChunkPlanner& planner, const PolicySpec& spec,
              std::span<const control::RecordedObs> rows)
      : planner_(planner),
        rows_(rows),
        batch_size_(static_cast<std::size_t>(planner.batch_size())),
        n_dims_(static_cast<std::size_t>(spec.shape_meta.action_dim())),
        chunk_size_(static_cast<std::size_t>(spec.horizons.n_action_steps) * n_dims_),
        obs_(control::MakeObsBatch(spec.shape_meta.obs, planner.batch_size(),
                                   spec.horizons.n_obs_steps)),
        actions_(batch_size_ * chunk_size_) {}

  std::size_t n_companions() const { return std::min(batch_size_ - 1, kMaxCompanions); }

  // The chunk of rows[0], asked at `place` among `n_others` other questions.
  std::vector<float> Ask(std::size_t n_others = 0, std::size_t place = 0) {
    std::vector<control::PlanRow> asked;
    for (std::size_t i = 0; i <= n_others; ++i) {
      asked.push_back(i == place ? Copy(rows_[0], i) : CopyOther(i));
    }
    return Plan(asked, place);
  }

  void AskOther() {
    const control::PlanRow row = CopyOther(0);
    Plan({&row, 1}, 0);
  }

  // The second chunk of the first row's episode. Between the two, another episode begins if
  // `resets_other`. Empty if the policy says that it cannot answer.
  std::vector<float> AskToContinue(bool resets_other) {
    Ask();
    if (resets_other) AskOther();
    control::PlanRow row = Copy(rows_[1 % rows_.size()], 0);
    row.seed = rows_[0].row.seed;
    row.env_step = rows_[0].row.env_step + 1;
    std::vector<float> chunk = PlanOrFail({&row, 1}, 0);
    const std::string fault = planner_.FaultOf(0);
    if (fault.starts_with("policy_error: ")) return {};
    if (!fault.empty()) throw EnvError("{}{}", kAsked, fault);
    return chunk;
  }

  std::optional<run::SeedDifference> Compare(const std::string& condition,
                                             const std::vector<float>& wanted,
                                             const std::vector<float>& found) const {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(wanted[i]) == std::bit_cast<std::uint32_t>(found[i]))
        continue;
      return run::SeedDifference{.condition = "the policy asked " + condition,
                                 .step = static_cast<int>(i / n_dims_),
                                 .key = fmt::format("action[{}]", i % n_dims_)};
    }
    return std::nullopt;
  }

 private:
  std::vector<float> PlanOrFail(std::span<const control::PlanRow> asked, std::size_t place) {
    control::RepeatFirstRow(asked.size(), &obs_);
    planner_.Plan(obs_, asked, actions_);
    const auto chunk = std::span(actions_).subspan(place * chunk_size_, chunk_size_);
    return {chunk.begin(), chunk.end()};
  }

  std::vector<float> Plan(std::span<const control::PlanRow> asked, std::size_t place) {
    std::vector<float> chunk = PlanOrFail(asked, place);
    if (const std::string fault = planner_.FaultOf(place); !fault.empty()) {
      throw EnvError("{}{}", kAsked, fault);
    }
    return chunk;
  }

  control::PlanRow Copy(const control::RecordedObs& row, std::size_t place) {
    control::CopyRow(row.obs, place, &obs_);
    return row.row;
  }

  // No two of them are alike.
  control::PlanRow CopyOther(std::size_t place) {
    const std::size_t n = ++n_others_;
    control::PlanRow row = Copy(rows_[n % rows_.size()], place);
    row.seed += 1000000 + n;
    return row;
  }

  control::ChunkPlanner& planner_;
  std::span<const control::RecordedObs> rows_;
  std::size_t batch_size_;
  std::size_t n_dims_;
  std::size_t chunk_size_;
  control::ObsBatch obs_;
  std::vector<float> actions_;
  std::size_t n_others_ = 0;
};

bool SaysTrue(const std::string& provenance, const char* place) {
  const nlohmann::json said =
      nlohmann::json::parse(provenance, nullptr, /*allow_exceptions=*/false);
  return core::ValueAt(said, place) == true;
}

std::optional<run::SeedDifference> FirstDifference(Interviewer& interviewer,
                                                   bool plays_one_episode) {
  const std::vector<float> wanted = interviewer.Ask();
  if (auto difference = interviewer.Compare("again", wanted, interviewer.Ask())) return difference;
  for (int i = 0; i < kQuestionsBetween; ++i) interviewer.AskOther();
  if (auto difference = interviewer.Compare("after others", wanted, interviewer.Ask())) {
    return difference;
  }
  // a policy that does not say that it plays one episode at a time may refuse to continue, but not
  // go on wrongly
  const std::vector<float> next = interviewer.AskToContinue(/*resets_other=*/false);
  const std::vector<float> after_reset =
      plays_one_episode ? next : interviewer.AskToContinue(/*resets_other=*/true);
  if (!next.empty() && !after_reset.empty()) {
    if (auto difference = interviewer.Compare("after the reset of another", next, after_reset)) {
      return difference;
    }
  }
  const std::size_t n = interviewer.n_companions();
  if (auto difference = interviewer.Compare("beside others", wanted, interviewer.Ask(n, 0))) {
    return difference;
  }
  return interviewer.Compare("beside others, as the last", wanted, interviewer.Ask(n, n));
}

}  // namespace

run::DeterminismCertificate CertifyPolicy(control::ChunkPlanner& planner, const PolicySpec& spec,
                                          std::span<const control::RecordedObs> rows,
                                          bool plays_one_episode) {
  Interviewer interviewer(planner, spec, rows);
  return {.first_seed = rows.front().row.seed,
          .n_seeds = static_cast<int>(rows.size()),
          .n_steps = spec.horizons.n_action_steps,
          .difference = FirstDifference(interviewer, plays_one_episode)};
}

bool PlaysOneEpisode(const std::string& provenance) {
  return SaysTrue(provenance, "/metadata/dp_bench/one_episode");
}

void RequireSeedsApart(const control::EnvRunnerConfig& config, const std::string& provenance) {
  const run::SeedRange train = {.first = config.train_start_seed, .n = config.n_train};
  const run::SeedRange test = {.first = config.test_start_seed, .n = config.n_test};
  const bool share_seeds = run::CountShared(train, test) > 0;
  if (!share_seeds || config.n_envs == 1 || !SaysTrue(provenance, "/stateful")) return;
  throw ConfigError(
      "the splits share seeds (train {} to {}, test {} to {}), and the policy's server remembers "
      "episodes and knows them by their seeds, so it would take two for one. Set "
      "env_runner.n_train=0, another env_runner.test_start_seed, or env_runner.n_envs=1, which "
      "plays one after the other",
      train.first, train.last(), test.first, test.last());
}

}  // namespace dp_bench::evaluate
