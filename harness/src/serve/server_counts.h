// What a server did, for its page /metrics and its log.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "serve/batcher.h"
#include "serve/protocol.h"

namespace dp_bench::serve {

/// Used by one thread.
struct ServerCounts {
  static constexpr std::array<double, 12> kSeconds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                                      0.1,   0.2,   0.5,   1.0,  2.0,  5.0};

  std::uint64_t n_clients = 0;  // since the start
  std::uint64_t n_open = 0;     // now
  std::uint64_t n_requests = 0;
  std::uint64_t n_answers = 0;
  std::map<Refusal, std::uint64_t> n_refused;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t n_reloads = 0;
  std::array<std::uint64_t, kSeconds.size() + 1> n_within = {};  // answers by their time, [s]
  double answer_s = 0.0;

  void CountAnswer(double seconds);
};

/// The page, in Prometheus' text format (version 0.0.4).
std::string PrometheusText(const ServerCounts& counts, const BatcherCounts& batches,
                           const PolicyInfo& info);

/// Appends a line of JSON per event to a file.
class ServerLog {
 public:
  /// "": nothing is kept. Throws Error{kIo}.
  explicit ServerLog(const std::string& path);

  void Write(std::string_view event, nlohmann::json fields);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace dp_bench::serve
