// The output forms of an ExperimentProfile: text tables and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/scope_timer.h"
#include "profile/op_work.h"
#include "profile/profile_experiment.h"

namespace dp_bench::profile {
namespace {

double AsPercent(double share) { return 100.0 * share; }
// "dp_bench::product", "backward MmBackward0", "[forward], outside of operators"
std::string Label(const OpTotal& op) {
  if (op.kind == OpKind::kScope) return fmt::format("[{}] itself", op.name);
  return op.name;
}

std::string LimitsTable(const MachineLimits& limits) {
  return fmt::format(
      "limits of this machine, {} threads: products {:.1f} GFLOP/s in float32, {:.1f} in bfloat16; "
      "memory {:.1f} GB/s\n",
      limits.n_threads, limits.float32_flops / 1e9, limits.bfloat16_flops / 1e9,
      limits.bytes_per_second / 1e9);
}

// How close that work in `seconds` comes to the limits.
std::string WorkLines(const WorkTotal& work, double seconds, const MachineLimits& limits) {
  const double rate = work.flops / seconds;
  const double product_rate = work.product_us > 0.0 ? work.flops / (1e-6 * work.product_us) : 0.0;
  const double moved = work.bytes / seconds;
  return fmt::format(
      "  computed {:>8.3f} GFLOP: {:>7.1f} GFLOP/s, {:.0f} % of the limit; {:.1f} GFLOP/s within "
      "products, {:.0f} % of the time\n"
      "  moved    {:>8.3f} GB:    {:>7.1f} GB/s, {:.0f} % of the limit\n",
      work.flops / 1e9, rate / 1e9, AsPercent(rate / limits.float32_flops), product_rate / 1e9,
      AsPercent(work.product_us / work.self_us), work.bytes / 1e9, moved / 1e9,
      AsPercent(moved / limits.bytes_per_second));
}

std::string OpTable(const RecordedWork& recorded, int n_listed) {
  const double all_us = SumOf(recorded.ops).self_us;
  const auto n = static_cast<double>(recorded.n_repetitions);
  std::string table = fmt::format("  {:<44} {:>8} {:>10} {:>7} {:>9} {:>7}\n", "operator", "calls",
                                  "self ms", "share", "GFLOP/s", "GB/s");
  int n_left = n_listed;
  for (const OpTotal& op : recorded.ops) {
    if (n_left-- == 0) break;
    const auto rate = [](double amount, double us) {
      return amount > 0.0 && us > 0.0 ? fmt::format("{:.1f}", 1e-3 * amount / us) : std::string();
    };
    table += fmt::format("  {:<44} {:>8.1f} {:>10.2f} {:>5.1f} % {:>9} {:>7}\n",
                         Label(op).substr(0, 44), static_cast<double>(op.n_calls) / n,
                         1e-3 * op.self_us / n, AsPercent(op.self_us / all_us),
                         rate(op.flops, op.product_us), rate(op.bytes, op.self_us));
  }
  return table;
}

std::string TrainingTable(const ExperimentProfile& profile, int n_listed) {
  const TrainingProfile& training = profile.training;
  std::string table =
      fmt::format("training step, batch size {}, mean of {}: {:.1f} ms, {:.0f} samples/s\n",
                  training.batch_size, training.n_steps, 1e3 * training.step_s,
                  static_cast<double>(training.batch_size) / training.step_s);
  for (const auto& [name, seconds] : training.phases) {
    table += fmt::format("  {:<10} {:>10.2f} ms {:>6.1f} %\n", name, 1e3 * seconds,
                         AsPercent(seconds / training.step_s));
  }
  const WorkTotal work = training.recorded.Mean();
  return table + WorkLines(work, training.step_s, profile.limits) +
         fmt::format("  operators per step, of {} recorded ones ({:.1f} ms each):\n",
                     training.recorded.n_repetitions, 1e-3 * work.self_us) +
         OpTable(training.recorded, n_listed);
}

std::string LatencyLine(const std::string& name, const run::LatencySummary& latency) {
  return fmt::format("  {:<24} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} ms of {}\n", name,
                     1e3 * latency.p50_s, 1e3 * latency.p95_s, 1e3 * latency.p99_s,
                     1e3 * latency.max_s, latency.n);
}

std::string InferenceTable(const InferenceProfile& inference, const MachineLimits& limits,
                           int n_listed) {
  std::string table = fmt::format("action chunk, batch {}\n  {:<24} {:>9} {:>9} {:>9} {:>9}\n",
                                  inference.batch_size, "", "p50", "p95", "p99", "max");
  table += LatencyLine("whole chunk", inference.chunk);
  for (const auto& [name, latency] : inference.stages) {
    table += LatencyLine(name == planner::kDenoisingStepScope
                             ? fmt::format("{} ({:g} x)", name, inference.steps_per_chunk)
                             : name,
                         latency);
  }
  return table + WorkLines(inference.recorded.Mean(), inference.chunk.p50_s, limits) +
         OpTable(inference.recorded, n_listed);
}

std::string MemoryTable(const ExperimentProfile& profile) {
  std::string table = fmt::format(
      "memory of a training step on the CPU in MiB; {:.1f} are held between steps\n"
      "  {:>10} {:>12} {:>12} {:>8}\n",
      train::Mebibytes(profile.held.total()), "batch size", "estimated", "measured", "apart");
  for (const train::MemoryCheck& check : profile.memory) {
    table += fmt::format("  {:>10} {:>12.1f} {:>12.1f} {:>6.1f} %\n", check.measured.batch_size,
                         train::Mebibytes(profile.held.total() + check.estimated.total()),
                         train::Mebibytes(profile.held.total() + check.measured.total()),
                         AsPercent(check.deviation()));
  }
  return table;
}

std::string AdviceList(const ExperimentProfile& profile) {
  if (profile.advice.empty()) return "advice: none, no figure suggests a change\n";
  return "advice\n" + AdviceLines(profile.advice);
}

nlohmann::json OpsJson(const RecordedWork& recorded) {
  nlohmann::json ops = nlohmann::json::array();
  for (const OpTotal& op : recorded.ops) {
    ops.push_back({{"name", op.name},
                   {"kind", NameOf(op.kind)},
                   {"calls", op.n_calls},
                   {"self_ms", 1e-3 * op.self_us},
                   {"total_ms", 1e-3 * op.total_us},
                   {"flop", op.flops},
                   {"bytes", op.bytes}});
  }
  const WorkTotal mean = recorded.Mean();
  return {{"repetitions", recorded.n_repetitions},
          {"flop_each", mean.flops},
          {"bytes_each", mean.bytes},
          {"product_share", mean.product_us / mean.self_us},
          {"operators", ops}};
}

nlohmann::json TrainingJson(const TrainingProfile& training) {
  nlohmann::json phases = nlohmann::json::object();
  for (const auto& [name, seconds] : training.phases) phases[name] = 1e3 * seconds;
  return {{"batch_size", training.batch_size},
          {"steps", training.n_steps},
          {"step_ms", 1e3 * training.step_s},
          {"phases_ms", phases},
          {"flops", training.recorded.Mean().flops / training.step_s},
          {"bytes_per_second", training.recorded.Mean().bytes / training.step_s},
          {"recorded", OpsJson(training.recorded)}};
}

nlohmann::json InferenceJson(const InferenceProfile& inference) {
  nlohmann::json stages = nlohmann::json::object();
  for (const auto& [name, latency] : inference.stages) stages[name] = ToJson(latency);
  return {{"batch_size", inference.batch_size},
          {"chunk", ToJson(inference.chunk)},
          {"stages", stages},
          {"denoising_steps", inference.steps_per_chunk},
          {"recorded", OpsJson(inference.recorded)}};
}

nlohmann::json MemoryJson(const ExperimentProfile& profile) {
  nlohmann::json sizes = nlohmann::json::array();
  for (const train::MemoryCheck& check : profile.memory) {
    sizes.push_back({{"batch_size", check.measured.batch_size},
                     {"estimated", profile.held.total() + check.estimated.total()},
                     {"measured", profile.held.total() + check.measured.total()}});
  }
  return {{"held", profile.held.total()}, {"steps", sizes}};
}

}  // namespace

std::string ToText(const ExperimentProfile& profile, int n_listed) {
  std::string text = fmt::format("profile of {} for {} on {}, {}\n", profile.policy, profile.task,
                                 profile.device, profile.precision);
  text += LimitsTable(profile.limits) + "\n" + TrainingTable(profile, n_listed) + "\n";
  for (const InferenceProfile& inference : profile.inference) {
    text += InferenceTable(inference, profile.limits, n_listed) + "\n";
  }
  text += MemoryTable(profile) + "\n" + AdviceList(profile);
  return text +
         fmt::format(
             "\nComputed: {}.\nMoved: each operand of an operator once, as if nothing were in a "
             "cache.\nLimits: the best of some products of 1024 x 1024 matrices, and a = b + s c "
             "over 64 MiB arrays.\n",
             kCountedProducts);
}

nlohmann::json ToJson(const ExperimentProfile& profile) {
  nlohmann::json inference = nlohmann::json::array();
  for (const InferenceProfile& each : profile.inference) inference.push_back(InferenceJson(each));
  nlohmann::json advice = nlohmann::json::array();
  for (const Advice& each : profile.advice) {
    advice.push_back({{"key", each.key}, {"value", each.value}, {"reason", each.reason}});
  }
  return {{"policy", profile.policy},
          {"task", profile.task},
          {"device", profile.device},
          {"precision", profile.precision},
          {"limits",
           {{"threads", profile.limits.n_threads},
            {"float32_flops", profile.limits.float32_flops},
            {"bfloat16_flops", profile.limits.bfloat16_flops},
            {"bytes_per_second", profile.limits.bytes_per_second}}},
          {"counted", kCountedProducts},
          {"training", TrainingJson(profile.training)},
          {"inference", inference},
          {"memory", MemoryJson(profile)},
          {"advice", advice}};
}

}  // namespace dp_bench::profile
