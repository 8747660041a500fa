// A policy behind a server, as the policy plugin `remote` uses it: from a config to chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/spec.h"

namespace dp_bench::remote {

/// An observation window of one episode: each key [To, storage shape].
struct Question {
  ArrayMap obs;
  std::uint64_t seed = 0;  // of the episode
  std::uint64_t step = 0;  // env steps since its beginning
};

/// A chunk, or why there is none: "policy_timeout: ...", "policy_disconnected: ..." or
/// "policy_error: ...". These words tell faults of the policy's server from those of an env.
struct Outcome {
  std::vector<float> chunk;  // [Ta, Da]
  std::string fault;
};

class PolicyClient;
class ServerProcess;

class RemoteClient {
 public:
  /// `params`: url or command, protocol, keys, ...; see docs/serving.md. Starts the command, and
  /// connects. Throws Error{kConfig}, Error{kUsage} for what is no address, and Error{kPlugin} if
  /// the command does not start or the server does not answer.
  RemoteClient(const Config& params, const PolicySpec& spec);
  ~RemoteClient();

  /// The answers in the order of the questions.
  std::vector<Outcome> Ask(std::span<const Question> questions);

  /// {"url" or "command": ..., "metadata": what the server says about itself} as JSON; with
  /// "stateful": true if it remembers episodes.
  std::string Provenance() const;

 private:
  std::unique_ptr<ServerProcess> server_;  // null: somebody else has started it
  std::unique_ptr<PolicyClient> client_;
};

}  // namespace dp_bench::remote
