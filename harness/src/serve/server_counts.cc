#include "serve/server_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/clock.h"
#include "core/errors.h"

namespace dp_bench::serve {
namespace {

template <class T>
void AddMetric(std::string_view name, std::string_view type, std::string_view help, T value,
               std::string* page) {
  *page += fmt::format("# HELP dp_bench_{0} {1}\n# TYPE dp_bench_{0} {2}\ndp_bench_{0} {3}\n", name,
                       help, type, value);
}

void AddHistogram(const ServerCounts& counts, std::string* page) {
  constexpr std::string_view kName = "dp_bench_answer_seconds";
  *page += fmt::format("# HELP {0} From a request to its answer\n# TYPE {0} histogram\n", kName);
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < counts.n_within.size(); ++i) {
    n += counts.n_within[i];
    const bool is_last = i == ServerCounts::kSeconds.size();
    *page += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", kName,
                         is_last ? "+Inf" : fmt::format("{}", ServerCounts::kSeconds[i]), n);
  }
  *page += fmt::format("{0}_sum {1}\n{0}_count {2}\n", kName, counts.answer_s, n);
}

}  // namespace

void ServerCounts::CountAnswer(double seconds) {
  ++n_answers;
  answer_s += seconds;
  const auto bucket = std::ranges::lower_bound(kSeconds, seconds) - kSeconds.begin();
  ++n_within[static_cast<std::size_t>(bucket)];
}

std::string PrometheusText(const ServerCounts& counts, const BatcherCounts& batches,
                           const PolicyInfo& info) {
  std::string page = fmt::format(
      "# HELP dp_bench_policy The policy that answers\n# TYPE dp_bench_policy gauge\n"
      "dp_bench_policy{{policy=\"{}\",checkpoint_sha256=\"{}\"}} 1\n",
      info.name, info.checkpoint_sha256);
  AddMetric("clients_total", "counter", "Clients so far", counts.n_clients, &page);
  AddMetric("clients", "gauge", "Clients now", counts.n_open, &page);
  AddMetric("requests_total", "counter", "Messages of clients", counts.n_requests, &page);
  page +=
      "# HELP dp_bench_refused_total Requests without actions\n"
      "# TYPE dp_bench_refused_total counter\n";
  for (const Refusal why : {Refusal::kBadRequest, Refusal::kOverloaded, Refusal::kFailed}) {
    const auto found = counts.n_refused.find(why);
    page += fmt::format("dp_bench_refused_total{{reason=\"{}\"}} {}\n", Name(why),
                        found == counts.n_refused.end() ? 0 : found->second);
  }
  AddMetric("received_bytes_total", "counter", "Bytes of requests", counts.bytes_in, &page);
  AddMetric("sent_bytes_total", "counter", "Bytes of answers", counts.bytes_out, &page);
  AddMetric("reloads_total", "counter", "Checkpoints that replaced another", counts.n_reloads,
            &page);
  AddMetric("rows_total", "counter", "Observations that were planned for", batches.n_rows, &page);
  AddMetric("batches_total", "counter", "Batches of the policy", batches.n_batches, &page);
  AddMetric("plan_seconds_total", "counter", "Time in the policy", batches.plan_s, &page);
  AddMetric("queued_rows", "gauge", "Observations that wait", batches.n_queued, &page);
  AddMetric("arrivals_per_second", "gauge", "Observations that arrive", batches.arrivals_per_s,
            &page);
  AddMetric("capacity_per_second", "gauge", "Observations that full batches can take",
            batches.capacity_per_s, &page);
  AddHistogram(counts, &page);
  return page;
}

ServerLog::ServerLog(const std::string& path) {
  if (path.empty()) return;
  file_.reset(std::fopen(path.c_str(), "ae"));
  if (file_ == nullptr) throw IoError("cannot open the log '{}': {}", path, std::strerror(errno));
}

void ServerLog::Write(std::string_view event, nlohmann::json fields) {
  if (file_ == nullptr) return;
  fields["time"] = core::UnixTime();
  fields["event"] = event;
  const std::string line = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::fprintf(file_.get(), "%s\n", line.c_str());
  std::fflush(file_.get());
}

}  // namespace dp_bench::serve
