// Both sides of the wire: IsolatedEnv asks, EnvWorker answers in the other process. A call looks
// the same from both: what it needs is in Request and the input, what comes back in Answer and the
// output.
#include "plugin/isolated_env.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/console.h"
#include "core/copy_bytes.h"
#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"
#include "plugin/catalogue.h"
#include "plugin/env_guard.h"
#include "plugin/env_message.h"
#include "plugin/shared_memory.h"
#include "plugin/spec_check.h"
#include "plugin/worker_process.h"

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

// What a process runs, and what it needs to create its env.
struct SessionStart {
  WorkerCommand command;
  std::vector<std::uint8_t> request;  // the input of kDescribe and kCreate
  PluginPlace plugin;                 // for messages
  bool names_plugin = true;  // in the message of a process that ends while it creates the env

  // For dp_bench_env_worker.
  static SessionStart OfPlugin(PluginPlace plugin, const Config& params) {
    SessionStart start;
    start.command = WorkerCommand::OfPlugins();
    start.command.files.push_back(plugin.file);
    start.request = nlohmann::json::to_cbor(
        {{"file", plugin.file.string()}, {"params", TransferConfig(params)}});
    start.plugin = std::move(plugin);
    return start;
  }
};

// Used by one thread at a time.
class EnvSession {
 public:
  // Starts a process that creates the env or, with kDescribe, only describes it. Throws what the
  // plugin throws, with the same code and message, and Error{kEnv} if its process ends.
  EnvSession(SessionStart start, const EnvLimits& limits, EnvCommand command = EnvCommand::kCreate)
      : start_(std::move(start)), limits_(limits), start_command_(command) {
    Forget();
    if (StartProcess()) return;
    first_ending_ = ending_;
    if (StartProcess()) return;
    Error error = EndedError();
    if (start_.names_plugin) error.AddContext(start_.plugin.Context(Name(start_command_)));
    throw error;
  }

  const EnvOffer& offer() const { return offer_; }

  // Makes one call into the env. If the process ends, repeats the episode in a new one: Reset with
  // its seed, the actions so far, and this call. If a process ends for the second time in an
  // episode, throws Error{kEnv}, which says how it ended; the next Reset starts again. Errors of
  // the env itself are thrown unchanged. `input`: an action or a state. `output` is overwritten
  // with the result.
  Answer Call(const Request& request, std::span<const std::byte> input = {},
              std::span<std::byte> output = {}) {
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
    core::CopyBytes(Output(output.size()), output);
    return *answer;
  }

  // The results of the last call; valid until the next one.
  std::span<const std::byte> Output(std::size_t size) const {
    return process_->memory().Part(layout_.output, size);
  }

  std::span<const std::byte> Obs(std::size_t key) const {
    return process_->memory().Part(layout_.obs[key], offer_.spec.shape_meta.obs[key].ByteSize());
  }

  // Whether the observation of the env's state is there already, so that kObserve need not be
  // called.
  bool has_observation() const { return has_observation_; }

 private:
  struct LoggedCall {
    EnvCommand command;
    std::uint64_t seed;
  };

  // Nothing if the process ended; `ending_` then says how.
  std::optional<Answer> Attempt(const Request& request, std::span<const std::byte> input,
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
  std::optional<Answer> Ask(Request request, std::span<const std::byte> input,
                            std::size_t output_size = 0) {
    SharedMemory& memory = process_->memory();
    request.input_size = input.size();
    request.output_offset = layout_.output;
    request.memory_size = layout_.output + std::max(output_size, kMinOutput);
    memory.Grow(request.memory_size);
    core::CopyBytes(input, memory.Part(0, input.size()));
    const std::optional<Answer> answer = process_->Ask(request, limits_);
    if (!answer) {
      ending_ = process_->ending();
      process_.reset();
      has_observation_ = false;  // it was in the process's memory
    }
    return answer;
  }

  // Starts a process with a new env. False if the process ended during that.
  bool StartProcess() {
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
  bool RepeatEpisode() {
    std::uint64_t digest = kFnvOffset;
    std::span<const std::byte> inputs = inputs_;
    for (const LoggedCall& call : calls_) {
      const std::size_t size = call.command == EnvCommand::kStep
                                   ? offer_.spec.shape_meta.action.ByteSize()
                               : call.command == EnvCommand::kSetState
                                   ? offer_.spec.abilities.state_size * sizeof(double)
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

  void Forget() {
    calls_.clear();
    inputs_.clear();
    has_expert_begun_ = false;
    may_repeat_ = true;
    first_ending_.clear();
    digest_ = kFnvOffset;
  }

  void Note(const Request& request, std::span<const std::byte> input, const Answer& answer) {
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

  void AddToDigest(EnvCommand command, const Answer& answer, std::uint64_t* digest) const {
    if (command == EnvCommand::kAct) Add(Output(offer_.spec.shape_meta.action.ByteSize()), digest);
    if (command != EnvCommand::kStep) return;
    Add(std::as_bytes(std::span(&answer.reward, 1)), digest);
    Add(std::as_bytes(std::span(&answer.terminated, 1)), digest);
    Add(std::as_bytes(std::span(&answer.success, 1)), digest);
    Add(Output(answer.size), digest);
  }

  void ThrowIfError(const Answer& answer) const {
    if (answer.error_code == kNoError) return;
    const std::span<const std::byte> text = Output(std::min<std::size_t>(answer.size, kMaxText));
    throw Error(static_cast<ErrorCode>(answer.error_code),
                std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  }

  Error EndedError() const {
    std::string how = ending_;
    if (first_ending_ == ending_) {
      how += ", and again in a fresh process";
    } else if (!first_ending_.empty()) {
      how = fmt::format("{}, and in a fresh process {}", first_ending_, ending_);
    }
    return EnvError("the env plugin {}", how);
  }

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

class IsolatedEnv final : public Env {
 public:
  explicit IsolatedEnv(std::unique_ptr<EnvSession> session)
      : Env(session->offer().spec), session_(std::move(session)), metrics_(spec().metrics.size()) {}

 private:
  void DoReset(std::uint64_t seed) override {
    session_->Call({.command = EnvCommand::kReset, .seed = seed});
  }

  StepResult DoStep(std::span<const float> action) override {
    const Answer answer = session_->Call({.command = EnvCommand::kStep}, std::as_bytes(action),
                                         std::as_writable_bytes(std::span(metrics_)));
    const std::size_t n_metrics =
        std::min<std::size_t>(answer.size / sizeof(double), metrics_.size());
    return {.reward = answer.reward,
            .terminated = answer.terminated,
            .success = answer.success,
            .metrics = std::span(metrics_).first(n_metrics)};
  }

  void DoObserve(const ObsWriter& obs) override {
    if (!session_->has_observation()) session_->Call({.command = EnvCommand::kObserve});
    for (std::size_t i = 0; i < obs.buffers().size(); ++i) {
      core::CopyBytes(session_->Obs(i), obs.buffers()[i]);
    }
  }

  void DoRender(RgbImage* frame) override { CallForFrame({.command = EnvCommand::kRender}, frame); }

  void DoGetState(std::span<double> state) const override {
    session_->Call({.command = EnvCommand::kGetState}, {}, std::as_writable_bytes(state));
  }
  void DoSetState(std::span<const double> state) override {
    session_->Call({.command = EnvCommand::kSetState}, std::as_bytes(state));
  }

  void DoBeginExpert(std::uint64_t seed) override {
    session_->Call({.command = EnvCommand::kBeginExpert, .seed = seed});
  }
  void DoAct(std::span<float> action) override {
    session_->Call({.command = EnvCommand::kAct}, {}, std::as_writable_bytes(action));
  }
  void DoPointerAction(double x, double y, std::span<float> action) const override {
    session_->Call({.command = EnvCommand::kPointerAction, .x = x, .y = y}, {},
                   std::as_writable_bytes(action));
  }

  CameraParameters DoGetCamera(int camera, int width, int height) const override {
    const Answer answer = session_->Call(
        {.command = EnvCommand::kGetCamera, .camera = camera, .width = width, .height = height});
    return DecodeCamera(session_->Output(answer.size));
  }
  void DoRenderCamera(int camera, RgbImage* frame) override {
    CallForFrame({.command = EnvCommand::kRenderCamera, .camera = camera}, frame);
  }

  void DoMarks(std::span<const float> action, int width, int height,
               std::span<float> xy) const override {
    session_->Call({.command = EnvCommand::kMarks, .width = width, .height = height},
                   std::as_bytes(action), std::as_writable_bytes(xy));
  }

  void CallForFrame(Request request, RgbImage* frame) const {
    request.width = frame->width;
    request.height = frame->height;
    session_->Call(request, {}, std::as_writable_bytes(std::span(frame->pixels)));
  }

  std::unique_ptr<EnvSession> session_;
  std::vector<double> metrics_;
};

class EnvWorker {
 public:
  explicit EnvWorker(int memory_fd) : memory_(memory_fd) {}

  /// A thrown error becomes an answer too.
  Answer Handle(const Request& request) {
    try {
      memory_.Map(request.memory_size);
      return Execute(request);
    } catch (const Error& error) {
      const std::string_view text = std::string_view(error.what()).substr(0, kMaxText);
      Answer answer = Put(request, text);
      answer.error_code = static_cast<std::int32_t>(error.code());
      return answer;
    }
  }

 private:
  Answer Execute(const Request& request) {
    if (request.command == EnvCommand::kDescribe || request.command == EnvCommand::kCreate) {
      return Start(request);
    }
    const std::size_t action_dim = env_->spec().action_low.size();
    const EnvAbilities& abilities = env_->spec().abilities;
    switch (request.command) {
      case EnvCommand::kReset:
        env_->Reset(request.seed);
        break;
      case EnvCommand::kStep:
        return Step(request);
      case EnvCommand::kObserve:
        Observe();
        break;
      case EnvCommand::kRender:
        PutFrame(request, [&](RgbImage* frame) { env_->Render(frame); });
        break;
      case EnvCommand::kGetState:
        env_->GetState(Output<double>(request, abilities.state_size));
        break;
      case EnvCommand::kSetState:
        env_->SetState(Input<double>(abilities.state_size));
        break;
      case EnvCommand::kBeginExpert:
        env_->BeginExpert(request.seed);
        break;
      case EnvCommand::kAct:
        env_->Act(Output<float>(request, action_dim));
        break;
      case EnvCommand::kPointerAction:
        env_->PointerAction(request.x, request.y, Output<float>(request, action_dim));
        break;
      case EnvCommand::kGetCamera:
        return Put(request, Encode(env_->GetCamera(request.camera, request.width, request.height)));
      case EnvCommand::kRenderCamera:
        PutFrame(request, [&](RgbImage* frame) { env_->RenderCamera(request.camera, frame); });
        break;
      case EnvCommand::kMarks:
        env_->Marks(Input<float>(request.input_size / sizeof(float)), request.width, request.height,
                    Output<float>(request, 2 * static_cast<std::size_t>(abilities.n_marks)));
        break;
      default:
        break;
    }
    return {};
  }

  Answer Start(const Request& request) {
    const auto input = Input<std::uint8_t>(request.input_size);
    const auto wanted = nlohmann::json::from_cbor(input.begin(), input.end());
    const Config params = ReceiveConfig(wanted.at("params"));
    const std::string name = catalogue_.LoadFile(wanted.at("file").get<std::string>()).name;
    EnvOffer offer;
    if (request.command == EnvCommand::kDescribe) {
      offer.spec = catalogue_.DescribeEnv(name, params);
    } else {
      env_ = catalogue_.Create<Env>(name, params);
      EnvGuard::Of(*env_).SetPlace({});  // the host adds the plugin's name to messages
      offer.spec = env_->spec();
      layout_ = LayOut(offer.spec);
      obs_.resize(offer.spec.shape_meta.obs.size());
    }
    offer.params = params.ToJson();
    return Put(request, Encode(offer));
  }

  Answer Step(const Request& request) {
    const StepResult result = env_->Step(Input<float>(env_->spec().action_low.size()));
    return {.terminated = result.terminated,
            .success = result.success,
            .reward = result.reward,
            .size = Put(request, result.metrics).size};
  }

  void Observe() {
    const std::vector<KeySpec>& keys = env_->spec().shape_meta.obs;
    for (std::size_t i = 0; i < obs_.size(); ++i) {
      obs_[i] = memory_.Part(layout_.obs[i], keys[i].ByteSize());
    }
    env_->Observe({keys, obs_});
  }

  // `n` numbers of the input, or room for them in the output.
  template <class T>
  std::span<const T> Input(std::size_t n) {
    return Numbers<T>(0, n);
  }
  template <class T>
  std::span<T> Output(const Request& request, std::size_t n) {
    return Numbers<T>(request.output_offset, n);
  }
  template <class T>
  std::span<T> Numbers(std::size_t offset, std::size_t n) {
    const std::span<std::byte> bytes = memory_.Part(offset, n * sizeof(T));
    return {reinterpret_cast<T*>(bytes.data()), n};
  }
  Answer Put(const Request& request, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    core::CopyBytes(bytes, memory_.Part(request.output_offset, bytes.size()));
    return {.size = bytes.size()};
  }
  template <class Draw>
  void PutFrame(const Request& request, const Draw& draw) {
    RgbImage frame(request.width, request.height);
    draw(&frame);
    Put(request, frame.pixels);
  }

  SharedMemory memory_;
  PluginCatalogue catalogue_{{}, FirstTry::kNone};  // this is a child process
  std::unique_ptr<Env> env_;
  MemoryLayout layout_;
  std::vector<std::span<std::byte>> obs_;
};

// Keys of `params` that the plugin reads there count as read here.
std::unique_ptr<EnvSession> StartSession(PluginPlace plugin, const Config& params,
                                         const EnvLimits& limits, EnvCommand command) {
  auto session = std::make_unique<EnvSession>(SessionStart::OfPlugin(std::move(plugin), params),
                                              limits, command);
  params.ReadAll(session->offer().params);
  return session;
}

// The caller's guard names the plugin in every message.
SessionStart StartOf(const HostedEnv& hosted) {
  const auto* const text = reinterpret_cast<const std::uint8_t*>(hosted.request.data());
  return {.command = {.arguments = hosted.command, .files = hosted.files},
          .request = {text, text + hosted.request.size()},
          .plugin = {.name = hosted.name},
          .names_plugin = false};
}

}  // namespace

std::unique_ptr<Env> CreateIsolatedEnv(PluginPlace plugin, const Config& params,
                                       const EnvLimits& limits) {
  auto env =
      std::make_unique<IsolatedEnv>(StartSession(plugin, params, limits, EnvCommand::kCreate));
  EnvGuard::Of(*env).SetPlace(std::move(plugin));
  return env;
}

EnvSpec DescribeIsolatedEnv(PluginPlace plugin, const Config& params, const EnvLimits& limits) {
  return StartSession(std::move(plugin), params, limits, EnvCommand::kDescribe)->offer().spec;
}

int RunEnvWorker(int socket, int memory_fd) {
  EnvWorker worker(memory_fd);
  while (true) {
    Request request;
    const ssize_t size = recv(socket, &request, sizeof(request), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof(request) || request.command == EnvCommand::kQuit) return 0;
    const Answer answer = worker.Handle(request);
    if (send(socket, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer)) return 0;
  }
}

std::optional<EnvLimits> ReadIsolation(const Config& env_runner) {
  bool is_isolated = false;
  const ConfigKeys keys(env_runner);
  keys("isolate", &is_isolated,
       "one process per env, with the limits of step_timeout, reset_timeout and memory_limit_mb; "
       "envs of gymnasium have one in any case, with those of env.params");
  const EnvLimits limits = EnvLimits::FromConfig(env_runner);
  return is_isolated ? std::optional(limits) : std::nullopt;
}

}  // namespace dp_bench::plugin

namespace dp_bench {

EnvLimits EnvLimits::FromConfig(const Config& config) {
  constexpr double kMinTimeout = 0.1;    // [s]
  constexpr double kMaxTimeout = 1.0e6;  // [s]
  EnvLimits c;
  const ConfigKeys keys(config);
  keys("step_timeout", &c.step_timeout, kMinTimeout, kMaxTimeout,
       "seconds that a step, an observation or an image may take in an env's own process");
  keys("reset_timeout", &c.reset_timeout, kMinTimeout, kMaxTimeout,
       "seconds that creating or resetting an env in its own process may take");
  keys("memory_limit_mb", &c.memory_limit_mb, 0, 1 << 30,
       "memory that an env's own process may use, in MiB; 0 = no limit");
  return c;
}

EnvSpec DescribeHostedEnv(const HostedEnv& hosted) {
  return plugin::EnvSession(plugin::StartOf(hosted), hosted.limits, plugin::EnvCommand::kDescribe)
      .offer()
      .spec;
}

std::unique_ptr<Env> CreateHostedEnv(const HostedEnv& hosted) {
  return std::make_unique<plugin::IsolatedEnv>(
      std::make_unique<plugin::EnvSession>(plugin::StartOf(hosted), hosted.limits));
}

}  // namespace dp_bench
