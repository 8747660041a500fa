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

Json Optional(const auto& value) { return value ? Json(*value) : Json(nullptr); }

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
    std::int64_t begin = 0;
    std::optional<std::int64_t> end;
    const ConfigKeys range(entry);
    range("begin", &begin, 0, 1 << 24, "first number of the part to take; of a vector only");
    range("end", &end, 1, 1 << 24, "one past the last number; null = all of them");
    part["begin"] = begin;
    part["end"] = Optional(end);
    part["values"] = entry.Get<std::vector<std::string>>(
        "values", {}, "of a text in info: the texts that it may be, of which it becomes a one_hot");
    part["size"] = entry.Get<std::vector<std::int64_t>>(
        "size", {}, "[height, width] to which an image is resized; of a camera, what it draws");
    const bool is_size = part["size"].empty() ||
                         (part["size"].size() == 2 && part["size"][0] > 0 && part["size"][1] > 0);
    if (is_size) continue;
    throw Error(ErrorCode::kConfig, fmt::format("{}: expected [height, width] above 0, found {}",
                                                entry.Where("size"), part["size"].dump()));
  }
  return mapping;
}

// The keys that gymnasium.make or a class of its own needs, and what each episode begins with.
Json ReadMaking(const Config& params) {
  std::string entry;
  std::string id;
  std::vector<std::string> imports;
  std::vector<std::string> wrappers;
  const ConfigKeys keys(params);
  keys("id", &id,
       "registered id, such as gym_pusht/PushT-v0, or module:id to import a module first");
  keys("entry", &entry, "instead of id: module:name of a class or function that makes the env");
  keys("imports", &imports, "modules that are imported first, such as those that register ids");
  keys("wrappers", &wrappers, "module:name of wrappers around the env, the innermost first");
  const Config seeding = params.Sub("seeding", "what a reset seeds besides reset(seed=...)");
  bool is_global = false;
  std::string method;
  std::vector<std::string> generators;
  const ConfigKeys seeds(seeding);
  seeds("global", &is_global, "seed the modules random and numpy.random");
  seeds("method", &method, "function of the unwrapped env that takes the seed, such as seed");
  seeds("generators", &generators,
        "attributes of the unwrapped env that become numpy's default_rng(seed)");
  Json making = {{"id", id}, {"entry", entry}, {"imports", imports}, {"wrappers", wrappers}};
  making["kwargs"] = ReadWhole(params.Sub("kwargs", "arguments of gymnasium.make or the entry"));
  making["reset_options"] = ReadWhole(params.Sub("reset_options", "options of every reset"));
  making["seeding"] = {
      {"global", is_global},
      {"method", method},
      {"generators", generators},
      {"attributes",
       ReadWhole(
           seeding.Sub("attributes", "attributes of the unwrapped env that are set, and values"))}};
  return making;
}

// One environment may be several tasks: "{task}" in texts of the params is the one that is played.
Json ReadTask(const Config& params) {
  std::string task;
  std::vector<std::string> tasks;
  const ConfigKeys keys(params);
  keys("task", &task, "what {task} in other texts of these params stands for");
  keys("tasks", &tasks, "the values that task may have; empty = any");
  if (!tasks.empty() && std::ranges::find(tasks, task) == tasks.end()) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: expected one of {}, found '{}'", params.Where("task"),
                            fmt::join(tasks, ", "), task));
  }
  return {{"task", task}, {"tasks", tasks}};
}

// How long an episode lasts, and when it has succeeded.
Json ReadEpisode(const Config& params) {
  std::string success = "is_success";
  int success_hold = 1;
  std::optional<int> max_steps;
  std::optional<double> control_hz;
  int action_repeat = 1;
  bool moves_without_actions = false;
  const ConfigKeys keys(params);
  keys("success", &success,
       "expression over reward, return, terminated and parts of info, such as is_success, "
       "'reward >= 4' or 'return > 100 and info.door.angle > 0.5'; absent parts are false");
  keys("success_hold", &success_hold, 1, 1000000, "steps on end for which it must be true");
  keys("max_steps", &max_steps, 1, 1000000,
       "maximum number of steps of an episode; null = the registered max_episode_steps");
  keys("control_hz", &control_hz, 1.0e-3, 1.0e6,
       "steps per simulated second; null = from the env's time step, or else its render_fps");
  keys("action_repeat", &action_repeat, 1, 1000, "env steps for each action; rewards are added");
  keys("moves_without_actions", &moves_without_actions,
       "the world changes even when no action changes it, so a policy's thinking time matters");
  Json episode = {{"success", success},
                  {"success_hold", success_hold},
                  {"max_steps", Optional(max_steps)},
                  {"control_hz", Optional(control_hz)},
                  {"action_repeat", action_repeat},
                  {"moves_without_actions", moves_without_actions}};
  episode["success_when"] = params.GetChoice(
      "success_when", {"any", "end"}, "any: at some step; end: at the last step of the episode");
  for (const char* bound : {"action_low", "action_high"}) {
    episode[bound] = params.Get<std::vector<double>>(
        bound, {}, "bounds of actions where the action space has none: one number, or one each");
  }
  return episode;
}

// Of envs that run MuJoCo: the host draws what cameras of their models see.
Json ReadCameras(const Config& params) {
  std::optional<std::string> camera;
  std::vector<std::string> upside_down;
  bool has_effects = true;
  const ConfigKeys keys(params);
  keys("camera", &camera,
       "camera of the env's MuJoCo model that videos show; null = what the env renders");
  keys("upside_down_cameras", &upside_down, "cameras whose images are turned by 180 degrees");
  keys("camera_effects", &has_effects, "draw shadows and reflections of what cameras see");
  const Config places = params.Sub(
      "camera_positions", "cameras that are moved, and where to in the frame of their body [m]");
  Json positions = Json::object();
  for (const std::string& name : places.Keys()) {
    const auto position = places.Get<std::vector<double>>(name, {}, "[x, y, z]");
    if (position.size() != 3) {
      throw Error(ErrorCode::kConfig, fmt::format("{}: expected [x, y, z], found {} numbers",
                                                  places.Where(name), position.size()));
    }
    positions[name] = position;
  }
  return {{"camera", Optional(camera)},
          {"camera_positions", positions},
          {"upside_down_cameras", upside_down},
          {"camera_effects", has_effects}};
}

HostedEnv ReadParams(const Config& params) {
  HostedEnv hosted = {.name = "gymnasium"};
  std::string python = "python3";
  std::optional<std::string> expert;
  std::optional<std::string> instruction;
  const ConfigKeys keys(params);
  keys("python", &python, "interpreter, such as venv/bin/python; has gymnasium and the env");
  if (python.find('/') != std::string::npos && !fs::exists(python)) {
    throw Error(ErrorCode::kConfig, fmt::format("{}: expected a Python interpreter, found no file "
                                                "'{}'",
                                                params.Where("python"), python));
  }
  hosted.limits = EnvLimits::FromConfig(params);
  keys("expert", &expert,
       "module:name of a class with get_action or select_action, of (observation) or (observation, "
       "info), or of such a function; null = none");
  std::string expert_by;
  keys("expert_by", &expert_by,
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
  keys("instruction", &instruction,
       "what to do, in words, for policies that read it; null = the env's task_description");
  Json request = ReadMaking(params);
  request.update(ReadTask(params));
  request.update(ReadEpisode(params));
  request.update(ReadCameras(params));
  request["expert"] = Optional(expert);
  request["expert_by"] = expert_by;
  request["experts"] = names;
  request["expert_kwargs"] =
      ReadWhole(params.Sub("expert_kwargs", "arguments of the expert's class"));
  request["instruction"] = Optional(instruction);
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
