#include "plugin/env_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/console.h"
#include "core/errors.h"
#include "plugin/spec_check.h"

namespace dp_bench::plugin {
namespace {

constexpr std::uint64_t kFnvOffset = 0xcbf29ce484222325;
constexpr std::uint64_t kFnvPrime = 0x100000001b3;

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

EnvSession::EnvSession(SessionStart start, const EnvLimits& limits, EnvCommand command)
    : start_(std::move(start)), limits_(limits), start_command_(command) {
  Forget();
  if (StartProcess()) return;
  first_ending_ = ending_;
  if (StartProcess()) return;
  Error error = EndedError();
  if (start_.names_plugin) error.AddContext(start_.plugin.Context(Name(start_command_)));
  throw error;
}

Answer EnvSession::Call(const Request& request, std::span<const std::byte> input,
                        std::span<std::byte> output) {
  if (request.command == EnvCommand::kReset) Forget();
  if (ChangesState(request.command)) has_observation_ = false;
  std::optional<Answer> answer = Attempt(request, input, output.size());
  if (!answer && may_repeat_) {
    may_repeat_ = false;
    first_ending_ = ending_;
    core::LogWarning("env plugin '{}' {} in {}; its episode is repeated in a fresh process",
                     start_.plugin.name, ending_, Name(request.command));
    answer = Attempt(request, input, output.size());
  }
  if (!answer) throw EndedError();
  ThrowIfError(*answer);
  Note(request, input, *answer);
  std::ranges::copy(Output(output.size()), output.begin());
  return *answer;
}

std::span<const std::byte> EnvSession::Output(std::size_t size) const {
  return process_->memory().Part(layout_.output, size);
}

std::span<const std::byte> EnvSession::Obs(std::size_t key) const {
  return process_->memory().Part(layout_.obs[key], offer_.spec.shape_meta.obs[key].ByteSize());
}

// Nothing if the process ended; `ending_` then says how.
std::optional<Answer> EnvSession::Attempt(const Request& request, std::span<const std::byte> input,
                                          std::size_t output_size) {
  try {
    if (process_ == nullptr && !(StartProcess() && RepeatEpisode())) return std::nullopt;
  } catch (...) {
    process_.reset();  // its state is not that of the episode; the next call starts a new one
    throw;
  }
  return Ask(request, input, output_size);
}

// Nothing if the process ended.
std::optional<Answer> EnvSession::Ask(Request request, std::span<const std::byte> input,
                                      std::size_t output_size) {
  SharedMemory& memory = process_->memory();
  request.input_size = input.size();
  request.output_offset = layout_.output;
  request.memory_size = layout_.output + std::max(output_size, kMinOutput);
  memory.Grow(request.memory_size);
  std::ranges::copy(input, memory.Part(0, input.size()).begin());
  const std::optional<Answer> answer = process_->Ask(request, limits_);
  if (!answer) {
    ending_ = process_->ending();
    process_.reset();
  }
  return answer;
}

// Starts a process with a new env. False if the process ended during that.
bool EnvSession::StartProcess() {
  has_observation_ = false;  // it was in the memory of the last process
  process_ = std::make_unique<WorkerProcess>(start_.command);
  // before the env is known, the memory holds the request and the offer
  layout_ = {.obs = {}, .output = Aligned(start_.request.size())};
  const std::optional<Answer> answer =
      Ask({.command = start_command_}, std::as_bytes(std::span(start_.request)));
  if (!answer) return false;
  ThrowIfError(*answer);
  offer_ = DecodeOffer(Output(answer->size));
  RequireSound(offer_.spec);  // a hosted env's may be anything
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
  throw EnvError(
      "the env plugin {}, and its episode could not be repeated: the same seed and actions gave "
      "other results",
      ending_);
}

void EnvSession::Forget() {
  calls_.clear();
  inputs_.clear();
  has_expert_begun_ = false;
  may_repeat_ = true;
  first_ending_.clear();
  digest_ = kFnvOffset;
}

void EnvSession::Note(const Request& request, std::span<const std::byte> input,
                      const Answer& answer) {
  switch (request.command) {
    case EnvCommand::kSetState:
      // from now on only the state counts, except for the memory of an expert
      if (!has_expert_begun_) Forget();
      break;
    case EnvCommand::kBeginExpert:
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
  const std::span<const std::byte> text = Output(std::min<std::size_t>(answer.size, kMaxText));
  throw Error(static_cast<ErrorCode>(answer.error_code),
              std::string(reinterpret_cast<const char*>(text.data()), text.size()));
}

Error EnvSession::EndedError() const {
  std::string how = ending_;
  if (first_ending_ == ending_) {
    how += ", and again in a fresh process";
  } else if (!first_ending_.empty()) {
    how = fmt::format("{}, and in a fresh process {}", first_ending_, ending_);
  }
  return EnvError("the env plugin {}", how);
}

}  // namespace dp_bench::plugin
