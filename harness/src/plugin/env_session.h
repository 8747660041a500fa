// The conversation with one env in a separate process. If the process ends, the episode is repeated
// in a new one; this happens at most once per episode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/error.h"
#include "dp_bench/hosted_env.h"
#include "plugin/env_message.h"
#include "plugin/guard.h"
#include "plugin/shared_memory.h"
#include "plugin/worker_process.h"

namespace dp_bench::plugin {

/// What a process runs, and what it needs to create its env.
struct SessionStart {
  WorkerCommand command;
  std::vector<std::uint8_t> request;  // the input of kDescribe and kCreate
  PluginPlace plugin;                 // for messages
  bool names_plugin = true;  // in the message of a process that ends while it creates the env

  /// For dp_bench_env_worker.
  static SessionStart OfPlugin(PluginPlace plugin, const Config& params);
};

/// Used by one thread at a time.
class EnvSession {
 public:
  /// Starts a process that creates the env or, with kDescribe, only describes it. Throws what the
  /// plugin throws, with the same code and message, and Error{kEnv} if its process ends.
  EnvSession(SessionStart start, const EnvLimits& limits, EnvCommand command = EnvCommand::kCreate);

  const EnvOffer& offer() const { return offer_; }

  /// Makes one call into the env. If the process ends, repeats the episode in a new one: Reset with
  /// its seed, the actions so far, and this call. If a process ends for the second time in an
  /// episode, throws Error{kEnv}, which says how it ended; the next Reset starts again. Errors of
  /// the env itself are thrown unchanged. `input`: an action or a state. `output` is overwritten
  /// with the result.
  Answer Call(const Request& request, std::span<const std::byte> input = {},
              std::span<std::byte> output = {});

  /// The results of the last call; valid until the next one.
  std::span<const std::byte> Output(std::size_t size) const;
  std::span<const std::byte> Obs(std::size_t key) const;

  /// Whether the observation of the env's state is there already, so that kObserve need not be
  /// called.
  bool has_observation() const { return has_observation_; }

 private:
  struct LoggedCall {
    EnvCommand command;
    std::uint64_t seed;
  };

  std::optional<Answer> Attempt(const Request& request, std::span<const std::byte> input,
                                std::size_t output_size);
  std::optional<Answer> Ask(Request request, std::span<const std::byte> input,
                            std::size_t output_size = 0);
  bool StartProcess();
  bool RepeatEpisode();
  void Forget();
  void Note(const Request& request, std::span<const std::byte> input, const Answer& answer);
  void AddToDigest(EnvCommand command, const Answer& answer, std::uint64_t* digest) const;
  void ThrowIfError(const Answer& answer) const;
  Error EndedError() const;

  const SessionStart start_;
  const EnvLimits limits_;
  const EnvCommand start_command_;
  std::unique_ptr<WorkerProcess> process_;  // null after it ended
  std::string ending_;                      // of the last process that ended
  std::string first_ending_;                // of the first in this episode
  bool may_repeat_ = true;
  EnvOffer offer_;
  MemoryLayout layout_;
  bool has_observation_ = false;

  // the episode so far: the calls that brought the env and its expert to their state
  std::vector<LoggedCall> calls_;
  std::vector<std::byte> inputs_;  // of those calls, one after another
  bool has_expert_begun_ = false;
  std::uint64_t digest_ = 0;  // of their answers
};

}  // namespace dp_bench::plugin
