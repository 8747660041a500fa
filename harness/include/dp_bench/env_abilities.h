// What an env may offer beyond the Env interface. EnvSpec::abilities declares which ones it has;
// the others are null pointers. Does not include LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dp_bench/env.h"
#include "dp_bench/export.h"

namespace dp_bench {

/// The full simulation state as numbers, for replay and sampling-based experts.
/// SetState(GetState()) continues bit for bit like the original.
class DPB_API StateAccess {
 public:
  virtual ~StateAccess();
  /// `state`: [EnvAbilities::state_size].
  virtual void GetState(std::span<double> state) const = 0;
  /// Throws Error{kEnv} on a wrong size or a state that is not finite. Also starts the episode
  /// clock.
  virtual void SetState(std::span<const double> state) = 0;
};

/// Solves the task, by a script or by search. `collect` records it, `view` shows it.
class DPB_API Expert {
 public:
  virtual ~Expert();
  /// Prepares to act from the env's current state. This may be in the middle of an episode, when
  /// the expert takes over from a policy (`collect.takeover`). All variation derives from `seed`:
  /// equal seeds and states give bitwise-equal actions.
  virtual void Begin(std::uint64_t seed) = 0;
  /// Writes the action for the env's current state, [Da]; called once before each Step. Throws
  /// Error{kEnv} if it cannot continue; the episode then counts as failed.
  virtual void Act(std::span<float> action) = 0;
};

/// A person moves the robot with a pointer.
class DPB_API PointerControl {
 public:
  virtual ~PointerControl();
  /// Writes the action, [Da], that follows the pointer. (x, y) is its position in the rendered
  /// frame, in [0, 1] from the top left.
  virtual void PointerAction(double x, double y, std::span<float> action) const = 0;
};

/// A pinhole camera without distortion. A point (X, Y, Z) in camera coordinates (x right, y down, z
/// forward [m]) appears at pixel (fx X / Z + cx, fy Y / Z + cy). The centre of the top left pixel
/// is (0.5, 0.5).
struct CameraParameters {
  std::string name;
  double fx = 0.0;  // [px]
  double fy = 0.0;
  double cx = 0.0;
  double cy = 0.0;
  std::array<double, 16> camera_to_world = {};  // row major, homogeneous [m]
};

/// The env is seen through cameras.
class DPB_API CameraAccess {
 public:
  virtual ~CameraAccess();
  /// The parameters in the current state, for pictures of this size. `camera`: an index into
  /// EnvAbilities::cameras. Throws Error{kEnv} before Reset.
  virtual CameraParameters Parameters(int camera, int width, int height) const = 0;
  /// Draws what one camera sees; changes nothing.
  virtual void RenderCamera(int camera, RgbImage* frame) = 0;
};

/// The positions of the robot's hands, and where an action would move them, in the picture that
/// Env::Render draws. With them, films and reports show the plan next to the executed path.
class DPB_API PictureMarks {
 public:
  virtual ~PictureMarks();
  /// Writes (x, y) of each mark, [EnvAbilities::n_marks, 2], for a picture of this size. Positions
  /// are measured from the top left and are in [0, 1] inside the picture; NaN for a mark that the
  /// picture cannot show. Changes nothing. Throws Error{kEnv} before Reset.
  virtual void StateMarks(int width, int height, std::span<float> xy) const = 0;
  /// The same for the state that `action`, [Da], would reach if it were executed completely. Throws
  /// Error{kShape} on a wrong size.
  virtual void ActionMarks(std::span<const float> action, int width, int height,
                           std::span<float> xy) const = 0;
};

}  // namespace dp_bench
