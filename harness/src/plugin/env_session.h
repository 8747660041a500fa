// The conversation with one env in a separate process. If the process ends, the episode is repeated
// in a new one; this happens at most once per episode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/error.h"
#include "plugin/env_message.h"
#include "plugin/guard.h"
#include "plugin/isolated_env.h"
#include "plugin/shared_memory.h"
#include "plugin/worker_process.h"

namespace dp_bench::plugin {

/// What a process runs, and what it needs to create its env.
struct SessionStart {
  WorkerCommand command;
  std::vector<std::uint8_t> request;  // the input of kDescribe and kCreate
  PluginPlace plugin;                 // for messages
  bool adds_context = true;  // false: the caller's guard adds the plugin's name to messages

  /// For dp_bench_env_worker.
  static SessionStart OfPlugin(PluginPlace plugin, const Config& params);
};

/// Used by one thread at a time.
class EnvSession {
 public:
  /// Starts a process that creates the env or, with kDescribe, only describes it. Throws what the
  /// plugin throws, with the same code and message, and Error{kEnv} if its process ends.
  EnvSession(SessionStart start, const IsolationConfig& config,
             EnvCommand command = EnvCommand::kCreate);

  const EnvOffer& offer() const { return offer_; }

  /// Makes one call into the env. If the process ends, repeats the episode in a new one: Reset with
  /// its seed, the actions so far, and this call. If a process ends for the second time in an
  /// episode, throws Error{kEnv}, which says how it ended; the next Reset starts again. Errors of
  /// the env itself are thrown unchanged. `input`: the action of kStep, the state of kSetState.
  Answer Call(Request request, std::span<const std::byte> input = {});

  /// Executes steps in one exchange if they are fast, because waiting for each of them would then
  /// take a good part of the time. `Call` answers them one by one, without the process. The next
  /// calls must be kStep with these `actions` ([n, Da] float32), and kObserve only where
  /// `has_observation` is false. Does nothing after the process ended once in the episode: it is
  /// then known in which step it ends again.
  void StepAhead(std::span<const std::byte> actions, int first_observed);

  /// The results of the last call; valid until the next one.
  std::span<const std::byte> Output(std::size_t size) const;
  std::span<const std::byte> Obs(std::size_t key) const;
  std::span<const std::byte> Bulk(std::size_t size) const;

  /// Whether the observation of the env's state is there already, so that kObserve need not be
  /// called.
  bool has_observation() const { return has_observation_; }

  /// Makes room for a picture of this many bytes.
  void ReserveBulk(std::size_t size);

 private:
  static constexpr double kNotMeasured = 1.0e9;

  struct LoggedCall {
    EnvCommand command;
    std::uint64_t seed;
  };

  // Steps that the process has executed and that were not asked for yet.
  struct StepsAhead {
    std::array<Answer, kMaxStepsAhead> answers;
    std::vector<std::byte> actions;
    std::size_t n = 0;
    std::size_t next = 0;

    bool is_left() const { return next < n; }
  };

  std::optional<Answer> Attempt(const Request& request, std::span<const std::byte> input);
  std::optional<Answer> Ask(const Request& request, std::span<const std::byte> input);
  std::size_t Ask(Request request, std::span<const std::byte> input, std::span<Answer> answers);
  Answer TakeStepAhead(const Request& request, std::span<const std::byte> input);
  void NoteFirstEnding(EnvCommand command);
  bool StartProcess();
  bool RepeatEpisode();
  void Forget();
  void Note(const Request& request, std::span<const std::byte> input, const Answer& answer);
  void AddToDigest(EnvCommand command, const Answer& answer, std::uint64_t* digest) const;
  void ThrowIfError(const Answer& answer) const;
  void AddContext(const char* during, Error* error) const;
  [[noreturn]] void ThrowEnded(EnvCommand command) const;

  const SessionStart start_;
  const IsolationConfig config_;
  const EnvCommand start_command_;
  std::unique_ptr<WorkerProcess> process_;  // null after it ended
  std::string ending_;                      // of the last process that ended
  std::string first_ending_;                // of the first in this episode
  bool may_repeat_ = true;
  EnvOffer offer_;
  MemoryLayout layout_;
  std::size_t bulk_size_ = kMaxText;
  bool has_observation_ = false;
  StepsAhead ahead_;
  std::size_t slot_ = 0;      // which step of the last exchange its output is of
  std::size_t obs_slot_ = 0;  // the same for the observation
  double step_seconds_ = kNotMeasured;

  // the episode so far: the calls that brought the env and its expert to their state
  std::vector<LoggedCall> calls_;
  std::vector<std::byte> inputs_;  // of those calls, one after another
  bool has_expert_begun_ = false;
  std::uint64_t digest_ = 0;  // of their answers
};

}  // namespace dp_bench::plugin
