// Asks a policy server for action chunks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "remote/dialect.h"
#include "remote/server_process.h"

namespace dp_bench::remote {

struct PolicyClientOptions {
  std::string url;
  ServerProcess* server = nullptr;  // the server's program, instead of a url
  std::string api_key;
  std::optional<int> n_connections;  // asked at the same time; none: the server's batch, or 8
  int n_retries = 2;                 // of a question that was not answered
  std::chrono::milliseconds connect_time{10000};
  std::chrono::milliseconds answer_time{30000};
};

/// Since the start.
struct ClientCounts {
  std::uint64_t n_questions = 0;
  std::uint64_t n_retries = 0;
  std::uint64_t n_reconnects = 0;  // connections that were open before
  std::uint64_t n_timeouts = 0;
  std::uint64_t n_faults = 0;  // questions without an answer after all
};

class PolicyClient {
 public:
  /// Connects once. Throws Error{kPlugin} if the server is not there or does not greet.
  PolicyClient(PolicyClientOptions options, std::unique_ptr<Dialect> dialect,
               const PolicySpec& spec);

  const std::string& url() const { return options_.url; }

  /// What the server says about itself.
  const wire::Map& metadata() const { return metadata_; }

  /// Whether it remembers episodes, so that no two with the same seed may be played at once.
  bool is_stateful() const { return dialect_->is_stateful(); }

  /// The questions are asked over all connections, without an order. Throws Error{kUnavailable} if
  /// the server has gone and does not come back within connect_time.
  std::vector<Outcome> Ask(std::span<const Question> questions);

  const ClientCounts& counts() const { return counts_; }

 private:
  // A connection, and the episode that a stateful server knows it by.
  struct Line {
    std::unique_ptr<net::Connection> connection;
    std::optional<std::uint64_t> episode;
    std::optional<std::uint64_t> step;  // of the episode, the latest that was asked about
    std::uint64_t last_used = 0;
    int n_starts = 0;  // of the server's program, when it connected
    bool was_open = false;

    void Close() {
      connection.reset();
      episode.reset();
    }
  };
  struct Attempt {
    std::size_t question = 0;
    std::size_t line = 0;
    net::Connection::Clock::time_point until;
  };

  std::size_t LineFor(const Question& question, std::span<const char> is_taken);
  void Open(Line& line);
  void Send(Line& line, const Question& question, net::Connection::Clock::time_point until);
  bool Receive(Line& line, net::Connection::Clock::time_point until, Outcome* outcome);
  std::vector<std::size_t> AskWave(std::span<const Question> questions,
                                   std::span<const std::size_t> waiting,
                                   std::vector<Outcome>* outcomes);
  bool IsLost(const Line& line) const;
  void AwaitServer();
  std::size_t RunningEpisodes() const;
  void NoteFull();
  std::string Ending() const;
  std::string FaultOf(const net::NetError& error, bool is_connected);
  static void RequireNextStep(const Line& line, const Question& question);
  void RequireChunk(const Reply& reply) const;

  PolicyClientOptions options_;
  std::unique_ptr<Dialect> dialect_;
  PolicySpec spec_;
  wire::Map metadata_;
  std::vector<Line> lines_;
  std::size_t n_at_once_ = 1;
  std::size_t most_lines_ = 1024;  // a stateful server needs one for each episode that runs
  std::uint64_t clock_ = 0;
  bool may_be_gone_ = false;  // the server, after what happened in this wave
  ClientCounts counts_;
};

}  // namespace dp_bench::remote
