// dp_bench doctor --url: what can be said about a policy behind a server.
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/verbs.h"
#include "core/clock.h"
#include "core/communicator.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/temporary_folder.h"
#include "dp_bench/policy.h"
#include "evaluate/certify_policy.h"
#include "evaluate/evaluation.h"
#include "planner/policy_planner.h"
#include "run/planning.h"
#include "task/experiment.h"

namespace dp_bench::app {
namespace {

constexpr double kMeasuredSeconds = 1.0;
constexpr int kMostClients = 8;

std::vector<control::RecordedObs> FirstObservations(const task::Experiment& experiment) {
  const core::TemporaryFolder folder;
  core::SingleProcess ranks;
  const evaluate::Evaluation evaluation(experiment, ranks, folder.path());
  std::vector<control::RecordedObs> rows;
  for (const int episode : {0, 1}) {
    if (auto row = evaluation.runner().FirstObservation(episode)) rows.push_back(std::move(*row));
  }
  if (rows.empty()) throw EnvError("the env could not be reset, so there is nothing to ask about");
  return rows;
}

// Answers per second to `n_clients` questions at once, or why one of them had none.
nlohmann::json Throughput(Policy& policy, const task::Experiment& experiment,
                          const control::RecordedObs& row, int n_clients) {
  planner::PolicyPlanner planner(policy, experiment.device(), n_clients);
  const PolicySpec& spec = experiment.spec();
  const auto n = static_cast<std::size_t>(n_clients);
  control::ObsBatch obs =
      control::MakeObsBatch(spec.shape_meta.obs, n_clients, spec.horizons.n_obs_steps);
  control::CopyRow(row.obs, /*place=*/0, &obs);
  control::RepeatFirstRow(1, &obs);
  std::vector<control::PlanRow> rows(n);
  for (std::size_t i = 0; i < n; ++i) rows[i].seed = i;
  std::vector<float> actions(
      n * static_cast<std::size_t>(spec.horizons.n_action_steps * spec.shape_meta.action_dim()));
  planner.Plan(obs, rows, actions);  // opens the connections
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t n_answers = 0;
  while (core::SecondsSince(start) < kMeasuredSeconds) {
    for (control::PlanRow& asked : rows) ++asked.env_step;
    planner.Plan(obs, rows, actions);
    n_answers += n;
    for (std::size_t i = 0; i < n; ++i) {
      if (std::string fault = planner.FaultOf(i); !fault.empty()) {
        return {{"n_clients", n_clients}, {"fault", std::move(fault)}};
      }
    }
  }
  return {{"n_clients", n_clients},
          {"answers_per_s", static_cast<double>(n_answers) / core::SecondsSince(start)}};
}

void PrintText(const nlohmann::json& found) {
  const auto text = [&](const char* key) { return found.at(key).get<std::string>(); };
  core::PrintResult("{:<12} {}\n", "certificate", text("certificate"));
  const nlohmann::json& latency = found.at("latency_ms");
  core::PrintResult("{:<12} p50 {:.2f} ms, p95 {:.2f} ms, p99 {:.2f} ms\n", "latency",
                    latency.at("p50").get<double>(), latency.at("p95").get<double>(),
                    latency.at("p99").get<double>());
  for (const nlohmann::json& row : found.at("throughput")) {
    const std::string result =
        row.contains("fault")
            ? row.at("fault").get<std::string>()
            : fmt::format("{:.1f} answers/s", row.at("answers_per_s").get<double>());
    core::PrintResult("{:<12} {} at once: {}\n", "throughput", row.at("n_clients").get<int>(),
                      result);
  }
}

}  // namespace

int ExaminePolicy(task::ExperimentOptions asked, const std::string& url,
                  const std::string& protocol, bool as_json) {
  asked.policy = "remote";
  asked.overrides.insert(asked.overrides.begin(),
                         {"policy.params.url=" + url, "policy.params.protocol=" + protocol,
                          "temporal_ensemble_coeff=null",  // the chunks are examined
                          "env_runner.n_train=0", "env_runner.n_test=2", "env_runner.n_videos=0"});
  const task::Experiment experiment(asked);
  const std::unique_ptr<Policy> policy = experiment.CreateWithoutWeights();
  const std::vector<control::RecordedObs> rows = FirstObservations(experiment);
  planner::PolicyPlanner planner(*policy, experiment.device(), kMostClients);
  const std::optional<run::SeedDifference> difference =
      evaluate::CertifyPolicy(planner, experiment.spec(), rows,
                              evaluate::PlaysOneEpisode(policy->Provenance()))
          .difference;
  const run::LatencySummary latency =
      evaluate::RequireLatencyAlone(*policy, experiment.device(), /*chunking=*/{}, rows);
  nlohmann::json found = {
      {"policy", nlohmann::json::parse(policy->Provenance())},
      {"deterministic", !difference},
      {"certificate",
       difference ? fmt::format("not a function of (observation, seed): {}, step {} first differs "
                                "in {}",
                                difference->condition, difference->step, difference->key)
                  : "a function of (observation, seed): verified"},
      {"latency_ms",
       {{"p50", 1e3 * latency.p50_s}, {"p95", 1e3 * latency.p95_s}, {"p99", 1e3 * latency.p99_s}}},
      {"throughput", nlohmann::json::array()}};
  for (int n = 1; n <= kMostClients; n *= 2) {
    found["throughput"].push_back(Throughput(*policy, experiment, rows.front(), n));
  }
  if (as_json) {
    core::PrintResult("{}\n", found.dump(2));
  } else {
    PrintText(found);
  }
  return difference ? 1 : 0;
}

}  // namespace dp_bench::app
