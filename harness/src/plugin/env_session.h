// The conversation with one env in a process of its own: what goes wrong with the process is
// repaired once per episode, by repeating the episode in a fresh one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "plugin/env_message.h"
#include "plugin/guard.h"
#include "plugin/isolated_env.h"
#include "plugin/shared_memory.h"
#include "plugin/worker_process.h"

namespace dp_bench::plugin {

/// Used by one thread at a time.
class EnvSession {
 public:
  /// Starts a process that creates the env or, with `start` kDescribe, only describes it. What the
  /// plugin reads of `params` counts as read. Throws what the plugin throws, with the same code and
  /// message, and Error{kEnv} when its process ends.
  EnvSession(PluginPlace plugin, const Config& params, const IsolationConfig& config,
             EnvCommand start = EnvCommand::kCreate);

  const EnvOffer& offer() const { return offer_; }

  /// Asks for one call into the env. When the process ends, the episode is repeated in a fresh one:
  /// Reset with its seed, the actions so far, and this call. The second time that this happens in
  /// an episode throws Error{kEnv}, which says how; another Reset starts anew. What the env itself
  /// throws is thrown here as it is. `input`: the action of kStep, the state of kSetState.
  Answer Call(Request request, std::span<const std::byte> input = {});

  /// What a call left behind; valid until the next one.
  std::span<const std::byte> Output(std::size_t size) const;
  std::span<const std::byte> Obs(std::size_t key) const;
  std::span<const std::byte> Bulk(std::size_t size) const;

  /// Makes room for a picture of this many bytes.
  void ReserveBulk(std::size_t size);

 private:
  struct LoggedCall {
    EnvCommand command;
    std::uint64_t seed;
  };

  std::optional<Answer> Attempt(const Request& request, std::span<const std::byte> input);
  std::optional<Answer> Ask(Request request, std::span<const std::byte> input);
  bool StartProcess();
  bool RepeatEpisode();
  void Forget();
  void Note(const Request& request, std::span<const std::byte> input, const Answer& answer);
  void AddToDigest(EnvCommand command, const Answer& answer, std::uint64_t* digest) const;
  void ThrowIfError(const Answer& answer) const;
  [[noreturn]] void ThrowEnded(EnvCommand command, const std::string& first) const;

  const PluginPlace plugin_;
  const IsolationConfig config_;
  const EnvCommand start_;
  std::vector<std::uint8_t> start_request_;
  std::unique_ptr<WorkerProcess> process_;  // null after it ended
  std::string ending_;                      // of the last one that ended
  bool may_repeat_ = true;
  EnvOffer offer_;
  MemoryLayout layout_;
  std::size_t bulk_size_ = kMaxText;

  // the episode so far: what brought the env and its expert to their state
  std::vector<LoggedCall> calls_;
  std::vector<std::byte> inputs_;  // of those calls, one after the other
  bool has_expert_begun_ = false;
  std::uint64_t digest_ = 0;  // of what they answered
};

}  // namespace dp_bench::plugin
