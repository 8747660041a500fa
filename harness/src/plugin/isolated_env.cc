// Both sides of the wire: IsolatedEnv asks, EnvWorker answers in the other process. A call looks
// the same from both: what it needs in Request, in the input and in the picture's size; what comes
// back in Answer, in the output and in bulk.
#include "plugin/isolated_env.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/hosted_env.h"
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
    const Answer answer = session_->Call({.command = EnvCommand::kStep}, std::as_bytes(action));
    const std::size_t n_metrics =
        std::min<std::size_t>(answer.size / sizeof(double), metrics_.size());
    const auto metrics = std::span(metrics_).first(n_metrics);
    Copy(session_->Output(metrics.size_bytes()), std::as_writable_bytes(metrics));
    return {.reward = answer.reward,
            .terminated = answer.terminated,
            .success = answer.success,
            .metrics = metrics};
  }

  void DoObserve(const ObsWriter& obs) override {
    if (!session_->has_observation()) session_->Call({.command = EnvCommand::kObserve});
    for (std::size_t i = 0; i < obs.buffers().size(); ++i) Copy(session_->Obs(i), obs.buffers()[i]);
  }

  void DoRender(RgbImage* frame) override { CallForFrame({.command = EnvCommand::kRender}, frame); }

  void DoGetState(std::span<double> state) const override {
    session_->Call({.command = EnvCommand::kGetState});
    Copy(session_->Output(state.size_bytes()), std::as_writable_bytes(state));
  }
  void DoSetState(std::span<const double> state) override {
    session_->Call({.command = EnvCommand::kSetState}, std::as_bytes(state));
  }

  void DoBeginExpert(std::uint64_t seed) override {
    session_->Call({.command = EnvCommand::kBeginExpert, .seed = seed});
  }
  void DoAct(std::span<float> action) override {
    CallForAction({.command = EnvCommand::kAct}, action);
  }
  void DoPointerAction(double x, double y, std::span<float> action) const override {
    CallForAction({.command = EnvCommand::kPointerAction, .x = x, .y = y}, action);
  }

  CameraParameters DoGetCamera(int camera, int width, int height) const override {
    const Answer answer = session_->Call(
        {.command = EnvCommand::kGetCamera, .camera = camera, .width = width, .height = height});
    return DecodeCamera(session_->Bulk(answer.size));
  }
  void DoRenderCamera(int camera, RgbImage* frame) override {
    CallForFrame({.command = EnvCommand::kRenderCamera, .camera = camera}, frame);
  }

  void DoStateMarks(int width, int height, std::span<float> xy) const override {
    CallForMarks({.command = EnvCommand::kStateMarks, .width = width, .height = height}, {}, xy);
  }
  void DoActionMarks(std::span<const float> action, int width, int height,
                     std::span<float> xy) const override {
    CallForMarks({.command = EnvCommand::kActionMarks, .width = width, .height = height}, action,
                 xy);
  }

  void CallForAction(const Request& request, std::span<float> action) const {
    session_->Call(request);
    Copy(session_->Output(action.size_bytes()), std::as_writable_bytes(action));
  }

  void CallForFrame(Request request, RgbImage* frame) const {
    request.width = frame->width;
    request.height = frame->height;
    session_->ReserveBulk(frame->pixels.size());
    session_->Call(request);
    Copy(session_->Bulk(frame->pixels.size()), std::as_writable_bytes(std::span(frame->pixels)));
  }

  void CallForMarks(const Request& request, std::span<const float> action,
                    std::span<float> xy) const {
    session_->ReserveBulk(xy.size_bytes());
    session_->Call(request, std::as_bytes(action));
    Copy(session_->Bulk(xy.size_bytes()), std::as_writable_bytes(xy));
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
      Answer answer =
          PutText(request, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
      answer.error_code = static_cast<std::int32_t>(error.code());
      return answer;
    }
  }

 private:
  Answer Execute(const Request& request);
  Answer Start(const Request& request);
  Answer Step();
  void Observe();

  // An action at `offset` of the shared memory.
  std::span<float> Action(std::size_t offset) {
    return Numbers<float>(offset, env_->spec().action_low.size());
  }
  std::span<double> State(std::size_t offset) {
    return Numbers<double>(offset, env_->spec().abilities.state_size);
  }
  std::span<float> Marks(const Request& request) {
    return Numbers<float>(request.bulk_offset,
                          2 * static_cast<std::size_t>(env_->spec().abilities.n_marks));
  }
  template <class T>
  std::span<T> Numbers(std::size_t offset, std::size_t n) {
    const std::span<std::byte> bytes = memory_.Part(offset, n * sizeof(T));
    return {reinterpret_cast<T*>(bytes.data()), n};
  }

  template <class Draw>
  void PutFrame(const Request& request, const Draw& draw) {
    RgbImage frame(request.width, request.height);
    draw(&frame);
    Copy(std::as_bytes(std::span(frame.pixels)),
         memory_.Part(request.bulk_offset, frame.pixels.size()));
  }
  Answer PutText(const Request& request, std::span<const std::uint8_t> text) {
    Copy(std::as_bytes(text), memory_.Part(request.bulk_offset, text.size()));
    return {.size = text.size()};
  }

  SharedMemory memory_;
  PluginCatalogue catalogue_{{}, FirstTry::kNone};  // this is a child process
  std::unique_ptr<Env> env_;
  MemoryLayout layout_;
  std::vector<std::span<std::byte>> obs_;
};

Answer EnvWorker::Execute(const Request& request) {
  switch (request.command) {
    case EnvCommand::kDescribe:
    case EnvCommand::kCreate:
      return Start(request);
    case EnvCommand::kReset:
      env_->Reset(request.seed);
      break;
    case EnvCommand::kStep:
      return Step();
    case EnvCommand::kObserve:
      Observe();
      break;
    case EnvCommand::kRender:
      PutFrame(request, [&](RgbImage* frame) { env_->Render(frame); });
      break;
    case EnvCommand::kGetState:
      env_->GetState(State(layout_.output));
      break;
    case EnvCommand::kSetState:
      env_->SetState(State(0));
      break;
    case EnvCommand::kBeginExpert:
      env_->BeginExpert(request.seed);
      break;
    case EnvCommand::kAct:
      env_->Act(Action(layout_.output));
      break;
    case EnvCommand::kPointerAction:
      env_->PointerAction(request.x, request.y, Action(layout_.output));
      break;
    case EnvCommand::kGetCamera:
      return PutText(request,
                     Encode(env_->GetCamera(request.camera, request.width, request.height)));
    case EnvCommand::kRenderCamera:
      PutFrame(request, [&](RgbImage* frame) { env_->RenderCamera(request.camera, frame); });
      break;
    case EnvCommand::kStateMarks:
      env_->StateMarks(request.width, request.height, Marks(request));
      break;
    case EnvCommand::kActionMarks:
      env_->ActionMarks(Action(0), request.width, request.height, Marks(request));
      break;
    case EnvCommand::kQuit:
      break;
  }
  return {};
}

Answer EnvWorker::Start(const Request& request) {
  const std::span<std::byte> input = memory_.Part(0, request.input_size);
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(input.data());
  const auto wanted = nlohmann::json::from_cbor(begin, begin + input.size());
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
  return PutText(request, Encode(offer));
}

Answer EnvWorker::Step() {
  const StepResult result = env_->Step(Action(0));
  Copy(std::as_bytes(result.metrics), memory_.Part(layout_.output, result.metrics.size_bytes()));
  return {.terminated = result.terminated,
          .success = result.success,
          .reward = result.reward,
          .size = result.metrics.size_bytes()};
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
                                         const IsolationConfig& config, EnvCommand command) {
  auto session = std::make_unique<EnvSession>(SessionStart::OfPlugin(std::move(plugin), params),
                                              config, command);
  AdoptReads(params, nlohmann::json::parse(session->offer().params));
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

IsolationConfig LimitsOf(const HostedEnv& hosted) {
  return {.is_enabled = true,
          .step_timeout = hosted.step_timeout,
          .reset_timeout = hosted.reset_timeout,
          .memory_limit_mb = hosted.memory_limit_mb};
}

constexpr double kMinTimeout = 0.1;    // [s]
constexpr double kMaxTimeout = 1.0e6;  // [s]

}  // namespace

std::unique_ptr<Env> CreateIsolatedEnv(PluginPlace plugin, const Config& params,
                                       const IsolationConfig& config) {
  auto env =
      std::make_unique<IsolatedEnv>(StartSession(plugin, params, config, EnvCommand::kCreate));
  EnvGuard::Of(*env).SetPlace(std::move(plugin));
  return env;
}

EnvSpec DescribeIsolatedEnv(PluginPlace plugin, const Config& params,
                            const IsolationConfig& config) {
  return StartSession(std::move(plugin), params, config, EnvCommand::kDescribe)->offer().spec;
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

IsolationConfig IsolationConfig::FromConfig(const Config& env_runner) {
  IsolationConfig c;
  c.is_enabled = env_runner.Get<bool>("isolate", c.is_enabled, "one process per env");
  c.step_timeout = env_runner.GetInRange(
      "step_timeout", c.step_timeout, kMinTimeout, kMaxTimeout,
      "seconds that a step, an observation or an image of an isolated env may take");
  c.reset_timeout =
      env_runner.GetInRange("reset_timeout", c.reset_timeout, kMinTimeout, kMaxTimeout,
                            "seconds that creating or resetting an isolated env may take");
  c.memory_limit_mb = static_cast<int>(env_runner.GetInRange(
      "memory_limit_mb", std::int64_t{c.memory_limit_mb}, std::int64_t{0}, std::int64_t{1} << 30,
      "memory that the process of an isolated env may use, in MiB; 0 = no limit"));
  return c;
}

}  // namespace dp_bench::plugin

namespace dp_bench {

EnvSpec DescribeHostedEnv(const HostedEnv& hosted) {
  return plugin::EnvSession(plugin::StartOf(hosted), plugin::LimitsOf(hosted),
                            plugin::EnvCommand::kDescribe)
      .offer()
      .spec;
}

std::unique_ptr<Env> CreateHostedEnv(const HostedEnv& hosted) {
  return std::make_unique<plugin::IsolatedEnv>(
      std::make_unique<plugin::EnvSession>(plugin::StartOf(hosted), plugin::LimitsOf(hosted)));
}

}  // namespace dp_bench
