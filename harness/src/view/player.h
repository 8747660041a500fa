// Plays episodes of one env: when each step is due, pause, speed, camera, the next seed. The player
// uses neither a window nor a clock, so tests need neither; PlayerThread gives it a clock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dp_bench/env.h"
#include "view/action_source.h"
#include "view/demonstration_recorder.h"

namespace dp_bench::view {

/// What a person requests with a key.
enum class Command {
  kTogglePause,
  kSingleStep,  // also pauses
  kFaster,      // twice the speed, up to kMaxSpeed
  kSlower,
  kNextCamera,
  kRestart,
  kNextEpisode,
};

inline constexpr double kMaxSpeed = 64.0;
inline constexpr double kMinSpeed = 1.0 / 64.0;

/// The command of a key: space, period, + (or =), -, c, r, n; nullopt for any other.
std::optional<Command> CommandOf(char key);

/// Everything about the current episode except its image.
struct PlayerStatus {
  std::uint64_t seed = 0;
  int step = 0;         // executed so far
  int max_steps = 0;    // the episode ends after these
  double reward = 0.0;  // of the latest step
  double score = 0.0;   // the highest reward
  bool success = false;
  bool is_over = false;
  bool is_paused = false;
  bool is_waiting = false;   // for a person
  bool is_finished = false;  // PlayerOptions::n_steps were executed, or the episode is over
  double speed = 1.0;
  std::string source;
  std::string camera;   // empty: the env's own image
  std::string failure;  // why the episode broke; the image is then the last good one
  std::string note;     // what happened to the demonstration
};

/// "expert · seed 3 · step 17/300 · reward 0.412 · success"
std::string Title(const PlayerStatus& status);

struct PlayerOptions {
  std::uint64_t first_seed = 0;
  double speed = 1.0;
  int max_steps = 0;  // of an episode; 0: as the env says
  int n_steps = 0;    // after so many, or an episode, the player is finished; 0: never
};

/// Used on the env's thread.
class Player {
 public:
  /// All arguments must outlive the player, which starts the first episode. `demonstrations`: where
  /// successful episodes go; null: nothing is recorded.
  Player(Env& env, ActionSource& source, DemonstrationRecorder* demonstrations,
         const PlayerOptions& options);

  /// Throws what the env throws on Reset.
  void Apply(Command command);

  /// The position of the pointer over the image.
  void Point(const Pointer& pointer) { source_.Point(pointer); }

  /// Executes one step if one is due at `now_s` [s of any clock]. Returns whether anything changed.
  /// A step that breaks the episode (Error{kEnv}) ends it as failed; other errors are passed on.
  bool Advance(double now_s);

  /// When the next step is due; nullopt if nothing happens before a command or a pointer event.
  std::optional<double> next_step_s() const;

  /// Draws the chosen camera. If the episode failed, the frame is not changed.
  void Draw(RgbImage* frame);

  const PlayerStatus& status() const { return status_; }

 private:
  void Begin(std::uint64_t seed);
  void NextCamera();

  double period_s() const;

  // False if the source has no action now.
  bool Step();
  void Count(const StepResult& result);
  void End();

  Env& env_;
  ActionSource& source_;
  int n_steps_;
  DemonstrationRecorder* demonstrations_;  // may be null
  PlayerStatus status_;
  std::vector<float> action_;  // [Da]
  int camera_ = 0;             // 0: the env's own image
  bool is_step_asked_for_ = false;
  int n_executed_ = 0;  // in all episodes
  double next_step_s_ = 0.0;
};

// A player on its own thread. The window stays responsive while a policy plans, and the OpenGL
// contexts of window and env stay on separate threads, because a thread can have only one.

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
  std::function<void()> on_image;           // called on that thread when TakeImage has a new image
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
  bool TakeImage(RgbImage* image, PlayerStatus* status);

 private:
  void Run();
  void Play(Player* player);
  void WaitForWork(const Player& player, std::unique_lock<std::mutex>* lock);

  const PlayerThreadOptions options_;
  const std::chrono::steady_clock::time_point start_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  std::optional<Pointer> pointer_;  // the last move
  bool is_stopped_ = false;
  bool is_outdated_ = true;  // something happened since the image was drawn
  bool has_image_ = false;
  RgbImage image_;
  PlayerStatus status_;
  std::exception_ptr failure_;

  std::thread thread_;  // last: it uses everything above
};

}  // namespace dp_bench::view
