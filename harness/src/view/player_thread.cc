#include "view/player_thread.h"

#include <utility>

namespace dp_bench::view {

PlayerThread::PlayerThread(PlayerThreadOptions options)
    : options_(std::move(options)),
      start_(std::chrono::steady_clock::now()),
      picture_(options_.width, options_.height),
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
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(command);
  }
  changed_.notify_one();
}

void PlayerThread::Point(const Pointer& pointer) {
  {
    const std::lock_guard lock(mutex_);
    pointer_ = pointer;
  }
  changed_.notify_one();
}

bool PlayerThread::TakePicture(RgbImage* picture, PlayerStatus* status) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (!has_picture_) return false;
    std::swap(*picture, picture_);
    *status = status_;
    has_picture_ = false;
  }
  changed_.notify_one();
  return true;
}

double PlayerThread::Now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
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
    options_.on_picture();
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
    const bool is_drawing_wanted = !has_picture_;

    lock.unlock();
    if (pointer) player->Point(*pointer);
    for (const Command command : commands) player->Apply(command);
    const bool is_changed = player->Advance(Now()) || !commands.empty() || is_outdated_;
    const bool is_drawn = is_changed && is_drawing_wanted;
    if (is_drawn) player->Draw(&drawing);
    lock.lock();

    is_outdated_ = is_changed && !is_drawn;
    if (!is_drawn) continue;
    picture_ = drawing;
    status_ = player->status();
    has_picture_ = true;
    lock.unlock();
    options_.on_picture();
    lock.lock();
  }
}

void PlayerThread::WaitForWork(const Player& player, std::unique_lock<std::mutex>* lock) {
  const auto has_work = [this] {
    return is_stopped_ || !commands_.empty() || pointer_ || (is_outdated_ && !has_picture_);
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
