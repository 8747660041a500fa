// A player on its own thread. The window stays responsive while a policy plans, and the OpenGL
// contexts of window and env stay on separate threads, because a thread can have only one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "dp_bench/env.h"
#include "view/action_source.h"
#include "view/demonstration_recorder.h"
#include "view/player.h"

namespace dp_bench::view {

/// The things that are played.
struct PlayedStage {
  std::unique_ptr<Env> env;
  std::unique_ptr<ActionSource> source;                   // of that env
  std::unique_ptr<DemonstrationRecorder> demonstrations;  // of that env; may be null
};

struct PlayerThreadOptions {
  PlayerOptions player;
  int width = 0;  // of the images [px]
  int height = 0;
  std::function<PlayedStage()> make_stage;  // called on the thread; the stage ends there too
  std::function<void()> on_picture;  // called on that thread when TakePicture has a new image
};

/// Call the functions from one thread, the window's.
class PlayerThread {
 public:
  explicit PlayerThread(PlayerThreadOptions options);
  PlayerThread(const PlayerThread&) = delete;
  PlayerThread& operator=(const PlayerThread&) = delete;
  /// Waits for the step in progress.
  ~PlayerThread();

  void Post(Command command);
  void Point(const Pointer& pointer);

  /// Gives the latest image and its status, if it was not taken yet. Images are drawn only as
  /// fast as they are taken. Rethrows the error that ended the thread.
  bool TakePicture(RgbImage* picture, PlayerStatus* status);

 private:
  void Run();
  void Play(Player* player);
  void WaitForWork(const Player& player, std::unique_lock<std::mutex>* lock);
  double Now() const;

  const PlayerThreadOptions options_;
  const std::chrono::steady_clock::time_point start_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  std::optional<Pointer> pointer_;  // the last move
  bool is_stopped_ = false;
  bool is_outdated_ = true;  // something happened since the image was drawn
  bool has_picture_ = false;
  RgbImage picture_;
  PlayerStatus status_;
  std::exception_ptr failure_;

  std::thread thread_;  // last: it uses everything above
};

}  // namespace dp_bench::view
