// Any Gymnasium environment as an env: gym_host.py runs it in a Python process of its own. Here is
// only what the params mean. Score: the highest reward. Success: the param `success`. Actions are
// clipped to the bounds of the action space. An episode that is truncated before max_steps ends
// like a terminated one.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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

Json ReadMapping(const Config& table) {
  Json mapping = Json::object();
  for (const std::string& key : table.Keys()) {
    const Config entry = table.Sub(key);
    const Json given = Json::parse(entry.ToJson());
    mapping[key]["path"] =
        given.contains("path") && given["path"].is_array()
            ? Json(entry.Get<std::vector<std::string>>("path"))
            : Json(entry.Get<std::string>("path", key,
                                          "part of the observation, as names with dots or a list "
                                          "of names; \"\" is all of it"));
    mapping[key]["layout"] = entry.GetChoice(
        "layout", {"auto", "vector", "HWC", "CHW", "HW", "RGBA", "depth", "one_hot"},
        "axes of an image (HW = grey), or vector = numbers; auto: uint8 with three channels is an "
        "image");
  }
  return mapping;
}

Json Optional(const auto& value) { return value ? Json(*value) : Json(nullptr); }

// `tells`: the process prints notes about what is doubtful.
HostedEnv ReadParams(const Config& params, bool tells) {
  HostedEnv hosted = {.name = "gymnasium"};
  std::string python = "python3";
  std::string success = "is_success";
  std::optional<std::string> expert;
  std::optional<int> max_steps;
  std::optional<double> control_hz;
  std::optional<std::string> instruction;
  const ConfigKeys keys(params);
  keys("python", &python, "interpreter, such as venv/bin/python; has gymnasium and the env");
  if (python.find('/') != std::string::npos && !fs::exists(python)) {
    throw Error(ErrorCode::kConfig, fmt::format("{}: expected a Python interpreter, found no file "
                                                "'{}'",
                                                params.Where("python"), python));
  }
  hosted.limits = EnvLimits::FromConfig(params);
  keys("success", &success,
       "key of info, which may be there in some steps only, or 'terminated', or 'reward>=X'");
  keys("expert", &expert,
       "module:name of a class with get_action(observation), or of a function of the observation; "
       "null = none");
  keys("max_steps", &max_steps, 1, 1000000,
       "maximum number of steps of an episode; null = the registered max_episode_steps");
  keys("control_hz", &control_hz, 1.0e-3, 1.0e6,
       "steps per simulated second; null = the env's render_fps");
  keys("instruction", &instruction,
       "what to do, in words, for policies that read it; null = the env's task_description");
  Json request = {{"tells", tells},
                  {"success", success},
                  {"expert", Optional(expert)},
                  {"max_steps", Optional(max_steps)},
                  {"control_hz", Optional(control_hz)},
                  {"instruction", Optional(instruction)}};
  const Config kwargs = params.Sub("kwargs", "arguments of gymnasium.make");
  request["kwargs"] = Json::parse(kwargs.ToJson());
  kwargs.ReadAll(kwargs.ToJson());
  request["obs"] = ReadMapping(
      params.Sub("obs", "observation keys and what each one is; empty = every part of the space"));
  request["id"] = params.Require<std::string>(
      "id", "registered id, such as gym_pusht/PushT-v0, or module:id to import a module first");
  if (request["id"] == "") {
    throw Error(ErrorCode::kConfig,
                params.Where("id") + ": expected the id of an environment, found an empty string");
  }
  // the order of sets of strings must not depend on the process
  hosted.files = {HostFile("gym_host.py"), HostFile("gym_parts.py")};
  hosted.command = {"env", "PYTHONHASHSEED=0", python, hosted.files[0].string()};
  hosted.request = request.dump();
  return hosted;
}

// Asks a process for the spaces, once per params in this program.
EnvSpec Describe(const Config& params) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<std::string, std::string>, EnvSpec>();
  const HostedEnv hosted = ReadParams(params, /*tells=*/true);
  const std::pair key(hosted.command[2], hosted.request);
  const std::lock_guard lock(mutex);
  const auto found = known->find(key);
  if (found != known->end()) return found->second;
  return known->emplace(key, DescribeHostedEnv(hosted)).first->second;
}

std::unique_ptr<Env> Create(const Config& params) {
  static std::atomic_flag has_created;
  return CreateHostedEnv(ReadParams(params, /*tells=*/!has_created.test_and_set()));
}

}  // namespace
}  // namespace dp_bench::gymnasium

DPB_EXPORT_PLUGIN(dp_bench::Env, "gymnasium", "1.0.0", &dp_bench::gymnasium::Describe,
                  &dp_bench::gymnasium::Create)
