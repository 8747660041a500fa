#include "plugin/env_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/console.h"
#include "dp_bench/error.h"
#include "plugin/env_message.h"
#include "plugin/worker_process.h"

namespace dp_bench::plugin {
namespace {

constexpr std::uint64_t kFnvOffset = 0xcbf29ce484222325;
constexpr std::uint64_t kFnvPrime = 0x100000001b3;

// An exchange takes 0.1 ms or less, so slower steps gain nothing. [s]
constexpr double kFastStep = 0.01;

bool IsSlow(EnvCommand command) {
  return command == EnvCommand::kDescribe || command == EnvCommand::kCreate ||
         command == EnvCommand::kReset || command == EnvCommand::kBegin;
}

bool ChangesState(EnvCommand command) {
  return command == EnvCommand::kReset || command == EnvCommand::kStep ||
         command == EnvCommand::kSetState;
}

// FNV-1a: it only compares two runs of one env and need not resist attacks.
void Add(std::span<const std::byte> bytes, std::uint64_t* digest) {
  for (const std::byte byte : bytes) {
    *digest = (*digest ^ static_cast<std::uint64_t>(byte)) * kFnvPrime;
  }
}

}  // namespace

SessionStart SessionStart::OfPlugin(PluginPlace plugin, const Config& params) {
  SessionStart start;
  start.command = WorkerCommand::OfPlugins();
  start.command.files.push_back(plugin.file);
  start.request =
      nlohmann::json::to_cbor({{"file", plugin.file.string()}, {"params", TransferConfig(params)}});
  start.plugin = std::move(plugin);
  return start;
}

EnvSession::EnvSession(SessionStart start, const IsolationConfig& config, EnvCommand command)
    : start_(std::move(start)), config_(config), start_command_(command) {
  Forget();
  if (StartProcess()) return;
  first_ending_ = ending_;
  if (!StartProcess()) ThrowEnded(start_command_);
}

Answer EnvSession::Call(Request request, std::span<const std::byte> input) {
  if (request.command == EnvCommand::kReset) Forget();
  if (ahead_.is_left()) return TakeStepAhead(request, input);
  if (ChangesState(request.command)) has_observation_ = false;
  std::optional<Answer> answer = Attempt(request, input);
  if (!answer && may_repeat_) {
    NoteFirstEnding(request.command);
    answer = Attempt(request, input);
  }
  if (!answer) ThrowEnded(request.command);
  ThrowIfError(*answer);
  Note(request, input, *answer);
  return *answer;
}

void EnvSession::StepAhead(std::span<const std::byte> actions, int first_observed) {
  const std::size_t action_size = offer_.spec.shape_meta.action.ByteSize();
  const std::size_t n = std::min(actions.size() / action_size, kMaxStepsAhead);
  if (process_ == nullptr || !may_repeat_ || step_seconds_ > kFastStep || n < 2) return;
  actions = actions.first(n * action_size);
  ahead_.actions.assign(actions.begin(), actions.end());
  ahead_.next = 0;
  ahead_.n = Ask({.command = EnvCommand::kStep,
                  .n_steps = static_cast<std::int32_t>(n),
                  .first_observed = first_observed},
                 actions, std::span(ahead_.answers).first(n));
  if (ahead_.n == 0) NoteFirstEnding(EnvCommand::kStep);
}

Answer EnvSession::TakeStepAhead(const Request& request, std::span<const std::byte> input) {
  const std::span<const std::byte> promised =
      std::span(ahead_.actions).subspan(ahead_.next * input.size(), input.size());
  if (request.command != EnvCommand::kStep || !std::ranges::equal(input, promised)) {
    throw Error(ErrorCode::kInternal,
                fmt::format("{} step(s) were executed ahead, and {} is not the next of them",
                            ahead_.n - ahead_.next, Name(request.command)));
  }
  slot_ = obs_slot_ = ahead_.next;
  const Answer answer = ahead_.answers[ahead_.next++];
  has_observation_ = false;
  ThrowIfError(answer);
  Note(request, input, answer);
  return answer;
}

void EnvSession::NoteFirstEnding(EnvCommand command) {
  may_repeat_ = false;
  first_ending_ = ending_;
  core::LogWarning(
      fmt::format("env plugin '{}' {} in {}; its episode is repeated in a fresh process",
                  start_.plugin.name, ending_, Name(command)));
}

std::span<const std::byte> EnvSession::Output(std::size_t size) const {
  return process_->memory().Part(layout_.output + slot_ * layout_.step_size, size);
}

std::span<const std::byte> EnvSession::Obs(std::size_t key) const {
  return process_->memory().Part(layout_.obs[key] + obs_slot_ * layout_.step_size,
                                 offer_.spec.shape_meta.obs[key].ByteSize());
}

std::span<const std::byte> EnvSession::Bulk(std::size_t size) const {
  return process_->memory().Part(layout_.bulk, size);
}

void EnvSession::ReserveBulk(std::size_t size) { bulk_size_ = std::max(bulk_size_, size); }

// Nothing if the process ended; `ending_` then says how.
std::optional<Answer> EnvSession::Attempt(const Request& request,
                                          std::span<const std::byte> input) {
  try {
    if (process_ == nullptr && !(StartProcess() && RepeatEpisode())) return std::nullopt;
  } catch (...) {
    process_.reset();  // its state is not that of the episode; the next call starts a new one
    throw;
  }
  return Ask(request, input);
}

std::optional<Answer> EnvSession::Ask(const Request& request, std::span<const std::byte> input) {
  Answer answer;
  if (Ask(request, input, {&answer, 1}) == 0) return std::nullopt;
  return answer;
}

// The number of answers; 0 if the process ended.
std::size_t EnvSession::Ask(Request request, std::span<const std::byte> input,
                            std::span<Answer> answers) {
  SharedMemory& memory = process_->memory();
  request.input_size = input.size();
  request.bulk_offset = layout_.bulk;
  request.memory_size = layout_.TotalSize(bulk_size_);
  memory.Grow(request.memory_size);
  std::ranges::copy(input, memory.Part(0, input.size()).begin());
  slot_ = 0;
  if (ChangesState(request.command) || request.command == EnvCommand::kObserve) obs_slot_ = 0;
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t n = process_->Ask(
      request,
      {.seconds = IsSlow(request.command) ? config_.reset_timeout : config_.step_timeout,
       .memory_mb = static_cast<std::size_t>(config_.memory_limit_mb)},
      answers);
  if (n == 0) {
    ending_ = process_->ending();
    process_.reset();
  } else if (request.command == EnvCommand::kStep) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    step_seconds_ = time.count() / static_cast<double>(n);
  }
  return n;
}

// Starts a process with a new env. False if the process ended during that.
bool EnvSession::StartProcess() {
  has_observation_ = false;  // it was in the memory of the last process
  process_ = std::make_unique<WorkerProcess>(start_.command);
  // before the env is known, the memory holds the request and the offer
  const std::size_t bulk_size = std::exchange(bulk_size_, kMaxOffer);
  layout_ = {.bulk = Aligned(start_.request.size())};
  const std::optional<Answer> answer =
      Ask({.command = start_command_}, std::as_bytes(std::span(start_.request)));
  bulk_size_ = bulk_size;
  if (!answer) return false;
  ThrowIfError(*answer);
  offer_ = DecodeOffer(Bulk(answer->size));
  layout_ = LayOut(offer_.spec);
  return true;
}

// Brings the new env to the state of the old one. False if the process ended during that.
bool EnvSession::RepeatEpisode() {
  std::uint64_t digest = kFnvOffset;
  std::span<const std::byte> inputs = inputs_;
  for (const LoggedCall& call : calls_) {
    const std::size_t size =
        call.command == EnvCommand::kStep       ? offer_.spec.shape_meta.action.ByteSize()
        : call.command == EnvCommand::kSetState ? offer_.spec.abilities.state_size * sizeof(double)
                                                : 0;
    const std::optional<Answer> answer =
        Ask({.command = call.command, .seed = call.seed}, inputs.first(size));
    if (!answer) return false;
    ThrowIfError(*answer);
    AddToDigest(call.command, *answer, &digest);
    inputs = inputs.subspan(size);
  }
  if (digest == digest_) return true;
  Error error(ErrorCode::kEnv,
              fmt::format("the env plugin {}, and its episode could not be repeated: the same seed "
                          "and actions gave other results",
                          ending_));
  AddContext("the repeated episode", &error);
  throw error;
}

void EnvSession::Forget() {
  calls_.clear();
  inputs_.clear();
  has_expert_begun_ = false;
  may_repeat_ = true;
  first_ending_.clear();
  ahead_.n = 0;
  digest_ = kFnvOffset;
}

void EnvSession::Note(const Request& request, std::span<const std::byte> input,
                      const Answer& answer) {
  switch (request.command) {
    case EnvCommand::kSetState:
      // from now on only the state counts, except for the memory of an expert
      if (!has_expert_begun_) Forget();
      break;
    case EnvCommand::kBegin:
      has_expert_begun_ = true;
      break;
    case EnvCommand::kReset:
    case EnvCommand::kStep:
    case EnvCommand::kAct:
      break;
    default:
      return;  // it changed nothing
  }
  if (ChangesState(request.command)) has_observation_ = answer.has_observation;
  calls_.push_back({request.command, request.seed});
  inputs_.insert(inputs_.end(), input.begin(), input.end());
  AddToDigest(request.command, answer, &digest_);
}

void EnvSession::AddToDigest(EnvCommand command, const Answer& answer,
                             std::uint64_t* digest) const {
  if (command == EnvCommand::kAct) Add(Output(offer_.spec.shape_meta.action.ByteSize()), digest);
  if (command != EnvCommand::kStep) return;
  Add(std::as_bytes(std::span(&answer.reward, 1)), digest);
  Add(std::as_bytes(std::span(&answer.terminated, 1)), digest);
  Add(std::as_bytes(std::span(&answer.success, 1)), digest);
  Add(Output(answer.size), digest);
}

void EnvSession::ThrowIfError(const Answer& answer) const {
  if (answer.error_code == kNoError) return;
  const std::span<const std::byte> text = Bulk(std::min<std::size_t>(answer.size, kMaxText));
  throw Error(static_cast<ErrorCode>(answer.error_code),
              std::string(reinterpret_cast<const char*>(text.data()), text.size()));
}

void EnvSession::AddContext(const char* during, Error* error) const {
  if (start_.adds_context) error->AddContext(start_.plugin.Context(during));
}

void EnvSession::ThrowEnded(EnvCommand command) const {
  const std::string& first = first_ending_;
  std::string how = ending_;
  if (first == ending_) how += ", and again in a fresh process";
  if (!first.empty() && first != ending_) {
    how = fmt::format("{}, and in a fresh process {}", first, ending_);
  }
  Error error(ErrorCode::kEnv, "the env plugin " + how);
  AddContext(Name(command), &error);
  throw error;
}

}  // namespace dp_bench::plugin
