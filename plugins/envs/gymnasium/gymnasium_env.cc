// Any Gymnasium environment as an env: gym_host.py runs it in a Python process of its own. Here is
// only what the params mean. Score: the highest reward. Success: the param `success`. Actions are
// clipped to the bounds of the action space. An episode that is truncated before max_steps ends
// like a terminated one.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dp_bench/config_keys.h"
#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "dp_bench/hosted_env.h"
#include "dp_bench/plugin.h"

namespace dp_bench::gymnasium {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Texts = std::vector<std::string>;

// The host's files lie beside this library.
fs::path HostFile(const char* name) {
  Dl_info library{};
  dladdr(reinterpret_cast<const void*>(&HostFile), &library);
  fs::path file = fs::absolute(library.dli_fname).parent_path() / name;
  if (fs::exists(file)) return file;
  throw Error(ErrorCode::kPlugin,
              fmt::format("expected {} beside the plugin's library, found no such file; build or "
                          "install dp_bench again",
                          file.string()));
}

// Reads keys of a section into the request, which has the same names, and returns their values.
class RequestKeys {
 public:
  // `request` must outlive it.
  RequestKeys(const Config& section, Json* request) : keys_(section), request_(*request) {}

  // `value`: the default. `rest`: the range of a number, and the meaning, as in ConfigKeys.
  template <class T, class... Rest>
  T operator()(const char* key, T value, const Rest&... rest) const {
    keys_(key, &value, rest...);
    request_[key] = value;
    return value;
  }
  template <class T, class... Rest>
  std::optional<T> operator()(const char* key, std::optional<T> value, const Rest&... rest) const {
    keys_(key, &value, rest...);
    request_[key] = value ? Json(*value) : Json(nullptr);
    return value;
  }

 private:
  ConfigKeys keys_;
  Json& request_;
};

// A section whose keys are those of a Python package.
Json ReadWhole(const Config& section) {
  section.ReadAll(section.ToJson());
  return Json::parse(section.ToJson());
}

Json ReadMapping(const Config& table) {
  Json mapping = Json::object();
  for (const std::string& key : table.Keys()) {
    const Config entry = table.Sub(key);
    const Json given = Json::parse(entry.ToJson());
    Json& part = mapping[key];
    part["path"] =
        given.contains("path") && given["path"].is_array()
            ? Json(entry.Get<std::vector<std::string>>("path"))
            : Json(entry.Get<std::string>("path", key,
                                          "part of the observation, as names with dots or a list "
                                          "of names; \"\" is all of it; or the camera's name"));
    part["layout"] = entry.GetChoice(
        "layout", {"auto", "vector", "HWC", "CHW", "HW", "RGBA", "depth", "one_hot"},
        "axes of an image (HW = grey), or vector = numbers; auto: uint8 with three channels is an "
        "image");
    part["source"] = entry.GetChoice(
        "source", {"observation", "info", "camera"},
        "where the path begins; camera: what a camera of the env's MuJoCo model sees");
    const RequestKeys keys(entry, &part);
    keys("begin", std::int64_t{0}, 0, 1 << 24,
         "first number of the part to take; of a vector only");
    keys("end", std::optional<std::int64_t>(), 1, 1 << 24,
         "one past the last number; null = all of them");
    keys("values", Texts(),
         "of a text in info: the texts that it may be, of which it becomes a one_hot");
    keys("size", std::vector<std::int64_t>(),
         "[height, width] to which an image is resized; of a camera, what it draws");
    const bool is_size = part["size"].empty() ||
                         (part["size"].size() == 2 && part["size"][0] > 0 && part["size"][1] > 0);
    if (is_size) continue;
    throw Error(ErrorCode::kConfig, fmt::format("{}: expected [height, width] above 0, found {}",
                                                entry.Where("size"), part["size"].dump()));
  }
  return mapping;
}

// The keys that gymnasium.make or a class of its own needs, and what each episode begins with.
void ReadMaking(const Config& params, Json* request) {
  const RequestKeys keys(params, request);
  keys("id", std::string(),
       "registered id, such as gym_pusht/PushT-v0, or module:id to import a module first");
  keys("entry", std::string(),
       "instead of id: module:name of a class or function that makes the env");
  keys("imports", Texts(), "modules that are imported first, such as those that register ids");
  keys("wrappers", Texts(), "module:name of wrappers around the env, the innermost first");
  const Config seeding = params.Sub("seeding", "what a reset seeds besides reset(seed=...)");
  Json& seeds = (*request)["seeding"];
  const RequestKeys seeding_keys(seeding, &seeds);
  seeding_keys("global", false, "seed the modules random and numpy.random");
  seeding_keys("method", std::string(),
               "function of the unwrapped env that takes the seed, such as seed");
  seeding_keys("generators", Texts(),
               "attributes of the unwrapped env that become numpy's default_rng(seed)");
  (*request)["kwargs"] =
      ReadWhole(params.Sub("kwargs", "arguments of gymnasium.make or the entry"));
  (*request)["reset_options"] = ReadWhole(params.Sub("reset_options", "options of every reset"));
  seeds["attributes"] = ReadWhole(
      seeding.Sub("attributes", "attributes of the unwrapped env that are set, and values"));
}

// One environment may be several tasks: "{task}" in texts of the params is the one that is played.
void ReadTask(const Config& params, Json* request) {
  const RequestKeys keys(params, request);
  const auto task =
      keys("task", std::string(), "what {task} in other texts of these params stands for");
  const auto tasks = keys("tasks", Texts(), "the values that task may have; empty = any");
  if (tasks.empty() || std::ranges::find(tasks, task) != tasks.end()) return;
  throw Error(ErrorCode::kConfig, fmt::format("{}: expected one of {}, found '{}'",
                                              params.Where("task"), fmt::join(tasks, ", "), task));
}

// How long an episode lasts, and when it has succeeded.
void ReadEpisode(const Config& params, Json* request) {
  const RequestKeys keys(params, request);
  keys("success", std::string("is_success"),
       "expression over reward, return, terminated and parts of info, such as is_success, "
       "'reward >= 4' or 'return > 100 and info.door.angle > 0.5'; absent parts are false");
  keys("success_hold", 1, 1, 1000000, "steps on end for which it must be true");
  keys("max_steps", std::optional<int>(), 1, 1000000,
       "maximum number of steps of an episode; null = the registered max_episode_steps");
  keys("control_hz", std::optional<double>(), 1.0e-3, 1.0e6,
       "steps per simulated second; null = from the env's time step, or else its render_fps");
  keys("action_repeat", 1, 1, 1000, "env steps for each action; rewards are added");
  keys("moves_without_actions", false,
       "the world changes even when no action changes it, so a policy's thinking time matters");
  (*request)["success_when"] = params.GetChoice(
      "success_when", {"any", "end"}, "any: at some step; end: at the last step of the episode");
  for (const char* bound : {"action_low", "action_high"}) {
    keys(bound, std::vector<double>(),
         "bounds of actions where the action space has none: one number, or one each");
  }
}

// Of envs that run MuJoCo: the host draws what cameras of their models see.
void ReadCameras(const Config& params, Json* request) {
  const RequestKeys keys(params, request);
  keys("camera", std::optional<std::string>(),
       "camera of the env's MuJoCo model that videos show; null = what the env renders");
  keys("upside_down_cameras", Texts(), "cameras whose images are turned by 180 degrees");
  keys("camera_effects", true, "draw shadows and reflections of what cameras see");
  const Config places = params.Sub(
      "camera_positions", "cameras that are moved, and where to in the frame of their body [m]");
  Json& positions = (*request)["camera_positions"] = Json::object();
  for (const std::string& name : places.Keys()) {
    const auto position = places.Get<std::vector<double>>(name, {}, "[x, y, z]");
    if (position.size() != 3) {
      throw Error(ErrorCode::kConfig, fmt::format("{}: expected [x, y, z], found {} numbers",
                                                  places.Where(name), position.size()));
    }
    positions[name] = position;
  }
}

HostedEnv ReadParams(const Config& params) {
  HostedEnv hosted = {.name = "gymnasium"};
  const auto python = params.Get<std::string>(
      "python", "python3", "interpreter, such as venv/bin/python; has gymnasium and the env");
  if (python.find('/') != std::string::npos && !fs::exists(python)) {
    throw Error(ErrorCode::kConfig, fmt::format("{}: expected a Python interpreter, found no file "
                                                "'{}'",
                                                params.Where("python"), python));
  }
  hosted.limits = EnvLimits::FromConfig(params);
  Json request;
  const RequestKeys keys(params, &request);
  const auto expert =
      keys("expert", std::optional<std::string>(),
           "module:name of a class with get_action or select_action, of (observation) or "
           "(observation, info), or of such a function; null = none");
  const auto expert_by = keys("expert_by", std::string(),
                              "part of info that says which of `experts` plays an episode, such as "
                              "privileged/target_task; instead of expert");
  const Config experts = params.Sub("experts", "experts by the value of that part of info");
  std::map<std::string, std::string> names;
  for (const std::string& value : experts.Keys()) {
    names[value] = experts.Get<std::string>(value, "", "module:name, as in expert");
  }
  if (names.empty() != expert_by.empty() || (expert && !names.empty())) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: expected an expert, or expert_by and experts, found a part of "
                            "them or both",
                            params.Where("expert")));
  }
  request["experts"] = names;
  keys("instruction", std::optional<std::string>(),
       "what to do, in words, for policies that read it; null = the env's task_description");
  ReadMaking(params, &request);
  ReadTask(params, &request);
  ReadEpisode(params, &request);
  ReadCameras(params, &request);
  request["expert_kwargs"] =
      ReadWhole(params.Sub("expert_kwargs", "arguments of the expert's class"));
  request["obs"] = ReadMapping(
      params.Sub("obs", "observation keys and what each one is; empty = every part of the space"));
  // the order of sets of strings must not depend on the process
  for (const char* file : {"gym_host.py", "gym_parts.py", "gym_success.py", "gym_world.py"}) {
    hosted.files.push_back(HostFile(file));
  }
  const bool has_id = request["id"] != "";
  if (has_id == (request["entry"] != "")) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: expected the id of an environment, or else its entry, found {}",
                            params.Where("id"), has_id ? "both" : "neither"));
  }
  hosted.command = {"env", "PYTHONHASHSEED=0", python, hosted.files[0].string()};
  hosted.request = request.dump();
  return hosted;
}

// Asks a process for the spaces, once per params in this program.
EnvSpec Describe(const Config& params) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<std::string, std::string>, EnvSpec>();
  const HostedEnv hosted = ReadParams(params);
  const std::pair key(hosted.command[2], hosted.request);
  const std::lock_guard lock(mutex);
  const auto found = known->find(key);
  if (found != known->end()) return found->second;
  return known->emplace(key, DescribeHostedEnv(hosted)).first->second;
}

std::unique_ptr<Env> Create(const Config& params) { return CreateHostedEnv(ReadParams(params)); }

}  // namespace
}  // namespace dp_bench::gymnasium

DPB_EXPORT_PLUGIN(dp_bench::Env, "gymnasium", "1.0.0", &dp_bench::gymnasium::Describe,
                  &dp_bench::gymnasium::Create)
