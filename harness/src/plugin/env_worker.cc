#include "plugin/env_worker.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "plugin/catalogue.h"
#include "plugin/env_message.h"
#include "plugin/shared_memory.h"

namespace dp_bench::plugin {
namespace {

class EnvWorker {
 public:
  explicit EnvWorker(int memory_fd) : memory_(memory_fd) {}

  /// Handles `request`: one answer, or one per step. A thrown error becomes an answer too.
  std::span<const Answer> Handle(const Request& request);

 private:
  template <class Call>
  Answer AnswerOf(const Request& request, const Call& call);
  std::span<const Answer> HandleSteps(const Request& request);
  Answer Execute(const Request& request);
  Answer Start(const Request& request);
  Answer Step(std::size_t step);
  bool TryToObserve(std::size_t step);
  void Observe(std::size_t step = 0);
  void Draw(const Request& request);
  Answer FindMarks(const Request& request);
  Answer PutText(const Request& request, std::span<const std::uint8_t> text);

  template <class T>
  std::span<T> Numbers(std::size_t offset, std::size_t n) {
    const std::span<std::byte> bytes = memory_.Part(offset, n * sizeof(T));
    return {reinterpret_cast<T*>(bytes.data()), n};
  }
  std::size_t state_size() const { return env_->spec().abilities.state_size; }
  std::span<float> ActionInput(std::size_t step = 0) {
    return Numbers<float>(step * action_dim_ * sizeof(float), action_dim_);
  }
  std::span<float> ActionOutput() { return Numbers<float>(layout_.output, action_dim_); }

  SharedMemory memory_;
  PluginCatalogue catalogue_{{}, FirstTry::kNone};  // this is a child process
  std::unique_ptr<Env> env_;
  MemoryLayout layout_;
  std::size_t action_dim_ = 0;
  std::vector<std::span<std::byte>> obs_;
  std::array<Answer, kMaxStepsAhead> answers_;
};

std::span<const Answer> EnvWorker::Handle(const Request& request) {
  if (request.command == EnvCommand::kStep) return HandleSteps(request);
  answers_[0] = AnswerOf(request, [&] { return Execute(request); });
  return std::span(answers_).first(1);
}

std::span<const Answer> EnvWorker::HandleSteps(const Request& request) {
  const int n_steps = std::clamp(request.n_steps, 1, static_cast<int>(kMaxStepsAhead));
  std::size_t n = 0;
  bool goes_on = true;
  while (goes_on && std::cmp_less(n, n_steps)) {
    const std::size_t step = n++;
    Answer& answer = answers_[step];
    answer = AnswerOf(request, [&] { return Step(step); });
    goes_on = answer.error_code == kNoError && !answer.terminated;
    if (!goes_on || std::cmp_less(step, request.first_observed)) continue;
    goes_on = answer.has_observation = TryToObserve(step);
  }
  return std::span(answers_).first(n);
}

template <class Call>
Answer EnvWorker::AnswerOf(const Request& request, const Call& call) {
  try {
    memory_.Map(request.memory_size);
    return call();
  } catch (const Error& error) {
    const std::string_view text = std::string_view(error.what()).substr(0, kMaxText);
    Answer answer =
        PutText(request, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    answer.error_code = static_cast<std::int32_t>(error.code());
    return answer;
  }
}

Answer EnvWorker::Execute(const Request& request) {
  switch (request.command) {
    case EnvCommand::kDescribe:
    case EnvCommand::kCreate:
      return Start(request);
    case EnvCommand::kReset:
      env_->Reset(request.seed);
      break;
    case EnvCommand::kStep:  // HandleSteps
      break;
    case EnvCommand::kObserve:
      Observe();
      break;
    case EnvCommand::kRender:
    case EnvCommand::kRenderCamera:
      Draw(request);
      break;
    case EnvCommand::kGetState:
      env_->state_access()->GetState(Numbers<double>(layout_.output, state_size()));
      break;
    case EnvCommand::kSetState:
      env_->state_access()->SetState(Numbers<double>(0, state_size()));
      break;
    case EnvCommand::kBegin:
      env_->expert()->Begin(request.seed);
      break;
    case EnvCommand::kAct:
      env_->expert()->Act(ActionOutput());
      break;
    case EnvCommand::kPointerAction:
      env_->pointer_control()->PointerAction(request.x, request.y, ActionOutput());
      break;
    case EnvCommand::kCameraParameters:
      return PutText(request, Encode(env_->camera_access()->Parameters(
                                  request.camera, request.width, request.height)));
    case EnvCommand::kStateMarks:
    case EnvCommand::kActionMarks:
      return FindMarks(request);
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
    offer.spec = env_->spec();
    layout_ = LayOut(offer.spec);
    action_dim_ = static_cast<std::size_t>(offer.spec.shape_meta.action_dim());
    obs_.resize(offer.spec.shape_meta.obs.size());
  }
  offer.params = params.ToJson();
  return PutText(request, Encode(offer));
}

Answer EnvWorker::Step(std::size_t step) {
  const StepResult result = env_->Step(ActionInput(step));
  const std::size_t n_metrics = env_->spec().metrics.size();
  if (result.metrics.size() > n_metrics) {
    throw Error(ErrorCode::kPlugin, fmt::format("the env reported {} metrics, its spec lists {}",
                                                result.metrics.size(), n_metrics));
  }
  const std::size_t output = layout_.output + step * layout_.step_size;
  std::ranges::copy(result.metrics, Numbers<double>(output, n_metrics).begin());
  return {.terminated = result.terminated,
          .success = result.success,
          .reward = result.reward,
          .size = result.metrics.size_bytes()};
}

// If it fails, the host asks again and gets the error.
bool EnvWorker::TryToObserve(std::size_t step) {
  try {
    Observe(step);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void EnvWorker::Observe(std::size_t step) {
  const std::vector<KeySpec>& keys = env_->spec().shape_meta.obs;
  for (std::size_t i = 0; i < obs_.size(); ++i) {
    obs_[i] = memory_.Part(layout_.obs[i] + step * layout_.step_size, keys[i].ByteSize());
  }
  env_->Observe({keys, obs_});
}

void EnvWorker::Draw(const Request& request) {
  RgbImage frame(request.width, request.height);
  if (request.command == EnvCommand::kRender) {
    env_->Render(&frame);
  } else {
    env_->camera_access()->RenderCamera(request.camera, &frame);
  }
  std::ranges::copy(std::as_bytes(std::span(frame.pixels)),
                    memory_.Part(request.bulk_offset, frame.pixels.size()).begin());
}

Answer EnvWorker::FindMarks(const Request& request) {
  const PictureMarks& marks = *env_->picture_marks();
  const auto n_marks = static_cast<std::size_t>(env_->spec().abilities.n_marks);
  const std::span<float> xy = Numbers<float>(request.bulk_offset, 2 * n_marks);
  if (request.command == EnvCommand::kStateMarks) {
    marks.StateMarks(request.width, request.height, xy);
  } else {
    marks.ActionMarks(ActionInput(), request.width, request.height, xy);
  }
  return {.size = xy.size_bytes()};
}

Answer EnvWorker::PutText(const Request& request, std::span<const std::uint8_t> text) {
  std::ranges::copy(std::as_bytes(text), memory_.Part(request.bulk_offset, text.size()).begin());
  return {.size = text.size()};
}

}  // namespace

int RunEnvWorker(int socket, int memory_fd) {
  EnvWorker worker(memory_fd);
  while (true) {
    Request request;
    const ssize_t size = recv(socket, &request, sizeof(request), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof(request) || request.command == EnvCommand::kQuit) return 0;
    const std::span<const Answer> answers = worker.Handle(request);
    const auto n_bytes = static_cast<ssize_t>(answers.size_bytes());
    if (send(socket, answers.data(), answers.size_bytes(), MSG_NOSIGNAL) != n_bytes) return 0;
  }
}

}  // namespace dp_bench::plugin
