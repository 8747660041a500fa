// Both sides of the wire: IsolatedEnv asks, EnvWorker answers in the other process. A call looks
// the same from both: what it needs is in Request and the input, what comes back in Answer and the
// output.
#include "plugin/isolated_env.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"
#include "plugin/catalogue.h"
#include "plugin/env_guard.h"
#include "plugin/env_session.h"

namespace dp_bench::plugin {

namespace {

// Copies to memory of the same size.
void Copy(std::span<const std::byte> from, std::span<std::byte> to) {
  DPB_ASSERT(from.size() == to.size());
  std::ranges::copy(from, to.begin());
}

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
    for (std::size_t i = 0; i < obs.buffers().size(); ++i) Copy(session_->Obs(i), obs.buffers()[i]);
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
  Answer Execute(const Request& request);
  Answer Start(const Request& request);
  Answer Step(const Request& request);
  void Observe();

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
    Copy(bytes, memory_.Part(request.output_offset, bytes.size()));
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

Answer EnvWorker::Execute(const Request& request) {
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

Answer EnvWorker::Start(const Request& request) {
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

Answer EnvWorker::Step(const Request& request) {
  const StepResult result = env_->Step(Input<float>(env_->spec().action_low.size()));
  return {.terminated = result.terminated,
          .success = result.success,
          .reward = result.reward,
          .size = Put(request, result.metrics).size};
}

void EnvWorker::Observe() {
  const std::vector<KeySpec>& keys = env_->spec().shape_meta.obs;
  for (std::size_t i = 0; i < obs_.size(); ++i) {
    obs_[i] = memory_.Part(layout_.obs[i], keys[i].ByteSize());
  }
  env_->Observe({keys, obs_});
}

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
  keys("isolate", &is_isolated, "one process per env");
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
