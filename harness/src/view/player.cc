#include "view/player.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/clock.h"
#include "dp_bench/error.h"

namespace dp_bench::view {
namespace {

// "2", "1/4"
std::string SpeedText(double speed) {
  return speed >= 1.0 ? fmt::format("{:g}", speed) : fmt::format("1/{:g}", 1.0 / speed);
}

}  // namespace

std::optional<Command> CommandOf(char key) {
  using Binding = std::pair<char, Command>;
  constexpr std::array<Binding, 8> kBindings = {{{' ', Command::kTogglePause},
                                                 {'.', Command::kSingleStep},
                                                 {'+', Command::kFaster},
                                                 {'=', Command::kFaster},
                                                 {'-', Command::kSlower},
                                                 {'c', Command::kNextCamera},
                                                 {'r', Command::kRestart},
                                                 {'n', Command::kNextEpisode}}};
  const auto* const found = std::ranges::find(kBindings, key, &Binding::first);
  return found == kBindings.end() ? std::nullopt : std::optional(found->second);
}

std::string Title(const PlayerStatus& status) {
  std::vector<std::string> parts = {std::string(status.source), fmt::format("seed {}", status.seed),
                                    fmt::format("step {}/{}", status.step, status.max_steps),
                                    fmt::format("reward {:.3f}", status.reward)};
  if (status.success) parts.emplace_back("success");
  if (!status.failure.empty()) {
    parts.emplace_back("failed");
  } else if (status.is_over) {
    parts.emplace_back("over");
  } else if (status.is_paused) {
    parts.emplace_back("paused");
  } else if (status.is_waiting) {
    parts.emplace_back("drag to move");
  }
  if (status.speed != 1.0) parts.push_back(SpeedText(status.speed) + "x");
  if (!status.camera.empty()) parts.push_back(status.camera);
  if (!status.note.empty()) parts.push_back(status.note);
  return fmt::format("{}", fmt::join(parts, " · "));
}

Player::Player(Env& env, ActionSource& source, DemonstrationRecorder* demonstrations,
               const PlayerOptions& options)
    : env_(env), source_(source), n_steps_(options.n_steps), demonstrations_(demonstrations) {
  action_.resize(static_cast<std::size_t>(env.spec().shape_meta.action_dim()));
  status_.max_steps = options.max_steps > 0 ? options.max_steps : env.spec().max_steps;
  status_.speed = std::clamp(options.speed, kMinSpeed, kMaxSpeed);
  status_.source = source.name();
  Begin(options.first_seed);
}

void Player::Begin(std::uint64_t seed) {
  status_.seed = seed;
  status_.step = 0;
  status_.reward = 0.0;
  status_.score = 0.0;
  status_.success = false;
  status_.is_over = false;
  status_.is_waiting = false;
  status_.failure.clear();
  status_.note.clear();
  env_.Reset(seed);
  source_.Begin(seed);
  if (demonstrations_ != nullptr) demonstrations_->Begin(seed);
}

void Player::Apply(Command command) {
  switch (command) {
    case Command::kTogglePause:
      status_.is_paused = !status_.is_paused;
      break;
    case Command::kSingleStep:
      status_.is_paused = true;
      is_step_asked_for_ = true;
      break;
    case Command::kFaster:
      status_.speed = std::min(2.0 * status_.speed, kMaxSpeed);
      break;
    case Command::kSlower:
      status_.speed = std::max(0.5 * status_.speed, kMinSpeed);
      break;
    case Command::kNextCamera:
      NextCamera();
      break;
    case Command::kRestart:
      Begin(status_.seed);
      break;
    case Command::kNextEpisode:
      Begin(status_.seed + 1);
      break;
  }
}

void Player::NextCamera() {
  const std::vector<std::string>& cameras = env_.spec().abilities.cameras;
  camera_ = (camera_ + 1) % (1 + static_cast<int>(cameras.size()));
  status_.camera = camera_ == 0 ? "" : cameras[static_cast<std::size_t>(camera_ - 1)];
}

double Player::period_s() const { return 1.0 / (env_.spec().control_hz * status_.speed); }

std::optional<double> Player::next_step_s() const {
  if (status_.is_over || status_.is_finished || status_.is_waiting) return std::nullopt;
  if (status_.is_paused) return std::nullopt;
  return next_step_s_;
}

bool Player::Advance(double now_s) {
  const bool is_asked_for = std::exchange(is_step_asked_for_, false);
  if (status_.is_over || status_.is_finished) return false;
  if (!is_asked_for && (status_.is_paused || now_s < next_step_s_)) return false;

  const bool was_waiting = status_.is_waiting;
  const bool has_stepped = Step();
  if (n_steps_ > 0) status_.is_finished = status_.is_over || n_executed_ >= n_steps_;
  if (!has_stepped) return status_.is_waiting != was_waiting;

  // a late player starts over from now instead of hurrying
  next_step_s_ += period_s();
  if (next_step_s_ < now_s) next_step_s_ = now_s + period_s();
  return true;
}

bool Player::Step() {
  try {
    status_.is_waiting = !source_.Next(action_);
    if (status_.is_waiting) return false;
    if (demonstrations_ != nullptr) demonstrations_->Add(action_);
    Count(env_.Step(action_));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnv) throw;
    status_.failure = error.what();
    status_.success = false;
    status_.is_over = true;
  }
  return true;
}

void Player::Count(const StepResult& result) {
  status_.reward = result.reward;
  status_.score = status_.step == 0 ? result.reward : std::max(status_.score, result.reward);
  status_.success = status_.success || result.success;
  ++status_.step;
  ++n_executed_;
  if (result.terminated || status_.step >= status_.max_steps) End();
}

void Player::End() {
  status_.is_over = true;
  if (demonstrations_ == nullptr) return;
  status_.note = status_.success
                     ? fmt::format("recorded, {} in the dataset", demonstrations_->Keep())
                     : "not recorded: no success";
}

void Player::Draw(RgbImage* frame) {
  if (!status_.failure.empty()) return;
  if (camera_ == 0) {
    env_.Render(frame);
  } else {
    env_.RenderCamera(camera_ - 1, frame);
  }
}

PlayerThread::PlayerThread(PlayerThreadOptions options)
    : options_(std::move(options)),
      start_(std::chrono::steady_clock::now()),
      image_(options_.width, options_.height),
      thread_([this] { Run(); }) {}

PlayerThread::~PlayerThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void PlayerThread::Post(Command command) {
  const std::lock_guard lock(mutex_);
  commands_.push_back(command);
  changed_.notify_one();
}

void PlayerThread::Point(const Pointer& pointer) {
  const std::lock_guard lock(mutex_);
  pointer_ = pointer;
  changed_.notify_one();
}

bool PlayerThread::TakeImage(RgbImage* image, PlayerStatus* status) {
  const std::lock_guard lock(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  if (!has_image_) return false;
  std::swap(*image, image_);
  *status = status_;
  has_image_ = false;
  changed_.notify_one();
  return true;
}

void PlayerThread::Run() {
  try {
    const PlayedStage stage = options_.make_stage();
    Player player(*stage.env, *stage.source, stage.demonstrations.get(), options_.player);
    Play(&player);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    options_.on_image();
  }
}

void PlayerThread::Play(Player* player) {
  RgbImage drawing(options_.width, options_.height);
  std::unique_lock lock(mutex_);
  while (true) {
    WaitForWork(*player, &lock);
    if (is_stopped_) return;
    const std::vector<Command> commands = std::exchange(commands_, {});
    const std::optional<Pointer> pointer = std::exchange(pointer_, std::nullopt);
    const bool is_drawing_wanted = !has_image_;

    lock.unlock();
    if (pointer) player->Point(*pointer);
    for (const Command command : commands) player->Apply(command);
    const bool is_changed =
        player->Advance(core::SecondsSince(start_)) || !commands.empty() || is_outdated_;
    const bool is_drawn = is_changed && is_drawing_wanted;
    if (is_drawn) player->Draw(&drawing);
    lock.lock();

    is_outdated_ = is_changed && !is_drawn;
    if (!is_drawn) continue;
    image_ = drawing;
    status_ = player->status();
    has_image_ = true;
    lock.unlock();
    options_.on_image();
    lock.lock();
  }
}

void PlayerThread::WaitForWork(const Player& player, std::unique_lock<std::mutex>* lock) {
  const auto has_work = [this] {
    return is_stopped_ || !commands_.empty() || pointer_ || (is_outdated_ && !has_image_);
  };
  const std::optional<double> next_step_s = player.next_step_s();
  if (next_step_s) {
    changed_.wait_until(*lock,
                        start_ + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                     std::chrono::duration<double>(*next_step_s)),
                        has_work);
  } else {
    changed_.wait(*lock, has_work);
  }
}

}  // namespace dp_bench::view
