#include "dp_bench/mujoco/model.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::mujoco {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, mjNWARNING> kWarnings = {
    "an inertia matrix is singular", "too many contacts",        "too many constraints",
    "a position is not finite",      "a velocity is not finite", "an acceleration is not finite",
    "a control is not finite"};

constexpr int kMaxListed = 20;

// The file of the library or program that contains this address.
fs::path FileOf(const void* anchor) {
  Dl_info info = {};
  if (dladdr(anchor, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code failed;
  const fs::path file = fs::weakly_canonical(info.dli_fname, failed);
  return failed ? fs::path() : file;
}

// 0 for types that envs rarely look up.
mjtSize CountOf(const mjModel& model, mjtObj type) {
  using Count = std::pair<mjtObj, mjtSize mjModel::*>;
  constexpr std::array<Count, 7> kCounts = {{{mjOBJ_ACTUATOR, &mjModel::nactuator},
                                             {mjOBJ_BODY, &mjModel::nbody},
                                             {mjOBJ_CAMERA, &mjModel::ncam},
                                             {mjOBJ_GEOM, &mjModel::ngeom},
                                             {mjOBJ_JOINT, &mjModel::njnt},
                                             {mjOBJ_SENSOR, &mjModel::nsensor},
                                             {mjOBJ_SITE, &mjModel::nsite}}};
  const auto* const found = std::ranges::find(kCounts, type, &Count::first);
  return found == kCounts.end() ? 0 : model.*(found->second);
}

std::string NamesOf(const mjModel& model, mjtObj type) {
  std::string names;
  int n_listed = 0;
  const auto n = static_cast<int>(CountOf(model, type));
  for (int id = 0; id < n; ++id) {
    const char* const name = mj_id2name(&model, type, id);
    if (name == nullptr) continue;
    if (++n_listed > kMaxListed) return names + ", …";
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return names.empty() ? "no such name" : names;
}

struct Episode {
  const char* scene = nullptr;
  std::uint64_t seed = 0;
};
thread_local Episode episode;

void HandleLog(const mjLogMessage* message) {
  if (message->level != mjLOG_ERROR) return;
  if (episode.scene == nullptr) {
    std::fprintf(stderr, "MuJoCo: %s\n", message->subject);
  } else {
    std::fprintf(stderr, "MuJoCo: %s (in %s, episode with seed %" PRIu64 ")\n", message->subject,
                 episode.scene, episode.seed);
  }
  // MuJoCo would continue with a broken simulation, and an exception must not cross its C frames
  std::abort();
}

}  // namespace

void InstallLog() {
  static const mjfLogHandler previous = mju_setLogHandler(HandleLog);
  static_cast<void>(previous);
}

LogScope::LogScope(const std::string& scene, std::uint64_t seed) {
  episode = {scene.c_str(), seed};
}

LogScope::~LogScope() { episode = {}; }

ModelPtr LoadModel(const fs::path& mjcf_file) {
  InstallLog();
  // MuJoCo joins a relative path twice if a scene attaches another file
  const std::string file = fs::absolute(mjcf_file).string();
  std::array<char, 1024> message = {};
  ModelPtr model(
      mj_loadXML(file.c_str(), nullptr, message.data(), static_cast<int>(message.size())));
  // a warning gives both a model and a message
  if (model == nullptr || message[0] != '\0') {
    throw Error(ErrorCode::kEnv,
                fmt::format("expected a MuJoCo scene in {}, but: {}", file, message.data()));
  }
  return model;
}

std::shared_ptr<const mjModel> SharedModel(const fs::path& mjcf_file) {
  static std::mutex mutex;
  static std::map<fs::path, std::weak_ptr<const mjModel>> models;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const mjModel>& entry = models[fs::absolute(mjcf_file)];
  if (std::shared_ptr<const mjModel> model = entry.lock()) return model;
  std::shared_ptr<const mjModel> model = LoadModel(mjcf_file);
  entry = model;
  return model;
}

ModelPtr CopyModel(const mjModel& model) {
  ModelPtr copy(mj_copyModel(nullptr, &model));
  if (copy == nullptr) throw std::bad_alloc();
  return copy;
}

DataPtr MakeData(const mjModel& model) {
  DataPtr data(mj_makeData(&model));
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

int IdOf(const mjModel& model, mjtObj type, const std::string& name) {
  const int id = mj_name2id(&model, type, name.c_str());
  if (id < 0) {
    throw Error(ErrorCode::kEnv,
                fmt::format("expected a {} named '{}' in the MuJoCo model '{}', found: {}",
                            mju_type2Str(type), name, model.names, NamesOf(model, type)));
  }
  return id;
}

void RequireHealthy(const mjData& data, std::int64_t step, std::uint64_t seed) {
  for (std::size_t i = 0; i < mjNWARNING; ++i) {
    if (data.warning[i].number == 0) continue;
    throw Error(ErrorCode::kNumeric,
                fmt::format("the simulation broke down in step {} of the episode with seed {}: {} "
                            "(MuJoCo's index {}, simulated {} s)",
                            step, seed, kWarnings[i], data.warning[i].lastinfo, data.time));
  }
}

fs::path FindScene(const std::string& file, const std::string& scene_dir, const void* anchor) {
  // an explicitly named folder must have the scene; the others are tried in turn
  std::vector<fs::path> folders;
  const char* const variable = std::getenv("DP_BENCH_SCENE_PATH");
  if (!scene_dir.empty()) {
    folders = {scene_dir};
  } else if (variable != nullptr && *variable != '\0') {
    folders = {variable};
  } else {
    folders = {"scenes"};
    for (fs::path folder = FileOf(anchor).parent_path(); folder.has_relative_path();
         folder = folder.parent_path()) {
      folders.push_back(folder / "scenes");
      folders.push_back(folder / "share" / "dp_bench" / "scenes");  // of an installation
    }
  }
  std::string tried;
  for (const fs::path& folder : folders) {
    fs::path path = folder / file;
    std::error_code failed;
    if (fs::is_regular_file(path, failed)) return path;
    tried += fmt::format("\n  {}", path.string());
  }
  throw Error(ErrorCode::kEnv,
              fmt::format("found no scene {}; looked for:{}\nSet DP_BENCH_SCENE_PATH to the folder "
                          "that holds it, or give the env's param scene_dir",
                          file, tried));
}

}  // namespace dp_bench::mujoco
