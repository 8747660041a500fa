// MuJoCo models and their data, with errors as exceptions. An error of MuJoCo itself ends the
// process; its message names the episode and the scene. Link dp_bench::mujoco.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "dp_bench/export.h"

namespace dp_bench::mujoco {

/// Frees a model.
struct ModelDeleter {
  void operator()(mjModel* model) const { mj_deleteModel(model); }
};
/// Frees the data of a simulation.
struct DataDeleter {
  void operator()(mjData* data) const { mj_deleteData(data); }
};
using ModelPtr = std::unique_ptr<mjModel, ModelDeleter>;
using DataPtr = std::unique_ptr<mjData, DataDeleter>;

/// Compiles an MJCF file. Calls InstallLog. Throws Error{kEnv} with MuJoCo's
/// message if that fails or warns.
DPB_API ModelPtr LoadModel(const std::filesystem::path& mjcf_file);

/// The same, shared by the envs of this process while any of them uses it. The model is constant,
/// so threads may share it. To change its numbers, make a copy.
DPB_API std::shared_ptr<const mjModel> SharedModel(const std::filesystem::path& mjcf_file);

/// Throw std::bad_alloc.
DPB_API ModelPtr CopyModel(const mjModel& model);
DPB_API DataPtr MakeData(const mjModel& model);

/// The id of a part of the model: IdOf(model, mjOBJ_JOINT, "elbow"). Throws Error{kEnv} that names
/// the parts of this type that the model has.
DPB_API int IdOf(const mjModel& model, mjtObj type, const std::string& name);

/// Throws Error{kNumeric} if MuJoCo warned since the last mj_resetData: numbers that are not
/// finite, too many contacts, and so on. Call it after mj_step, because MuJoCo continues with a
/// broken simulation. The message names the control step and the episode's seed.
DPB_API void RequireHealthy(const mjData& data, std::int64_t step, std::uint64_t seed);

/// Errors go to stderr and abort. Warnings are dropped, because mjData counts those of a simulation
/// and the env checks the counts. Without this, MuJoCo also writes MUJOCO_LOG.TXT into the working
/// folder. Applies to the whole process; further calls do nothing. LoadModel calls it.
DPB_API void InstallLog();

/// Names the episode that the calling thread simulates, while this object exists.
class DPB_API LogScope {
 public:
  /// `scene` must outlive it.
  LogScope(const std::string& scene, std::uint64_t seed);
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
  ~LogScope();
};

/// Finds a scene in `scene_dir` if it is not empty, else in $DP_BENCH_SCENE_PATH, else in the
/// folder `scenes` of the working folder, else in a folder `scenes` or `share/dp_bench/scenes`
/// beside or above the library or program that contains `anchor`. `file` is a path in that folder:
/// "kuavo/pick_place.xml". Throws Error{kEnv} with a list of the searched places.
DPB_API std::filesystem::path FindScene(const std::string& file, const std::string& scene_dir,
                                        const void* anchor);

/// The same, for the plugin that calls it.
inline std::filesystem::path FindScene(const std::string& file, const std::string& scene_dir = {}) {
  static const char anchor = 0;
  return FindScene(file, scene_dir, &anchor);
}

}  // namespace dp_bench::mujoco
