// dp_bench doctor: what this machine offers to dp_bench, what is missing, and what to do about it:
// tried, not only looked up.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "core/communicator.h"
#include "core/console.h"
#include "core/machine.h"
#include "core/temporary_folder.h"
#include "core/thread_pool.h"
#include "dp_bench/error.h"
#include "media/video_encoder.h"
#include "media/video_frames.h"
#include "plugin/catalogue.h"
#include "plugin/isolated_env.h"
#include "plugin/obs_memory.h"
#include "task/task.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

struct DoctorOptions {
  task::ExperimentOptions experiment;
  std::string url;
  std::string protocol = "openpi";
  bool as_json = false;
};

// kMissing: dp_bench works without it, but some of its abilities do not. kBroken: needs repair.
enum class Health { kOk, kMissing, kBroken };

// The result of one check.
struct Checkup {
  std::string subject;  // "memory", "env pusht"
  Health health = Health::kOk;
  std::string found;        // what there is, or why it does not work
  std::string advice = {};  // what to do; empty if nothing
};

Checkup Ok(std::string found) { return {.found = std::move(found)}; }

Checkup Missing(std::string found, std::string advice) {
  return {.health = Health::kMissing, .found = std::move(found), .advice = std::move(advice)};
}

Checkup Broken(std::string found, std::string advice) {
  return {.health = Health::kBroken, .found = std::move(found), .advice = std::move(advice)};
}

constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kLittleMemory = 4.0;  // [GiB]; training the shipped policies takes less than 2
constexpr double kLittleSpace = 1.0;   // [GiB]

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// The result of `check`; an exception means that the subject is broken.
Checkup Try(const std::string& subject, const std::string& advice,
            const std::function<Checkup()>& check) {
  try {
    Checkup checkup = check();
    checkup.subject = subject;
    return checkup;
  } catch (const std::exception& exception) {
    return {subject, Health::kBroken, FirstLine(exception.what()), advice};
  }
}

Checkup CheckProcessor() {
  std::vector<std::string> parts = {core::ProcessorName(),
                                    fmt::format("{} cores", core::ResolveThreadCount(0))};
  if (core::HasAvx2AndFma()) parts.emplace_back("AVX2 and FMA");
  if (core::HasAvx512()) parts.emplace_back("AVX-512");
  if (core::HasBfloat16Products()) parts.emplace_back("bfloat16 products");
  const std::string found = fmt::format("{}", fmt::join(parts, ", "));
  if (core::HasAvx2AndFma()) return Ok(found);
  return Missing(found,
                 "without AVX2 and FMA, dp_bench is slow, and outcomes differ from those of other "
                 "processors");
}

Checkup CheckMemory() {
  const double available = static_cast<double>(core::AvailableMemory()) / kBytesPerGib;
  const std::string found = fmt::format("{:.1f} GiB available", available);
  if (available >= kLittleMemory) return Ok(found);
  return Missing(found, "end other programs, or train with a smaller dataloader.batch_size");
}

// Writes a file into the folder and removes it again.
Checkup CheckFolder(const fs::path& folder) {
  const fs::path probe = folder / fmt::format(".dp_bench_doctor_{}", getpid());
  std::ofstream(probe) << "probe";
  if (!fs::is_regular_file(probe)) {
    return Broken(fmt::format("{} is not writable", folder.string()),
                  "results are written below it; change its permissions or use another folder");
  }
  fs::remove(probe);
  const double space = static_cast<double>(fs::space(folder).available) / kBytesPerGib;
  const std::string found = fmt::format("{}, {:.1f} GiB free", folder.string(), space);
  return space >= kLittleSpace ? Ok(found)
                               : Missing(found, "a run with checkpoints and videos can need more");
}

Checkup CheckLibTorch() {
  return Ok(fmt::format("{}, {} kernels, {} threads", TORCH_VERSION, at::get_cpu_capability(),
                        at::get_num_threads()));
}

Checkup CheckGpu() {
  const int n = +torch::cuda::device_count();  // as a number, not as a character
  if (n > 0) return Ok(fmt::format("{} CUDA device{}", n, n == 1 ? "" : "s"));
  return Missing(
      "LibTorch finds no CUDA device",
      "not needed on a CPU; for a GPU, build against a LibTorch with CUDA (preset cuda)");
}

Checkup CheckMpi() {
  const std::string version = core::MpiVersion();
  if (version != core::kWithoutMpi) return Ok(version);
  return Missing("dp_bench was built without MPI",
                 "only `mpirun dp_bench train` needs it: install libopenmpi-dev and build again");
}

Checkup CheckDisplay() {
  for (const char* name : {"WAYLAND_DISPLAY", "DISPLAY"}) {
    const char* display = std::getenv(name);
    if (display != nullptr && *display != '\0') return Ok(fmt::format("{}={}", name, display));
  }
  return Missing("there is none", "only `dp_bench view` needs one; videos and images do not");
}

// One second of video, written and read.
Checkup CheckVideos() {
  constexpr int kFrames = 10;
  const core::TemporaryFolder folder;
  const fs::path file = folder.path() / "probe.mp4";
  media::VideoEncoder encoder(file, {.width = 64, .height = 48, .fps = kFrames});
  RgbImage frame(64, 48);
  for (int i = 0; i < kFrames; ++i) {
    std::ranges::fill(frame.pixels, static_cast<std::uint8_t>(20 * i));
    encoder.Write(frame);
  }
  encoder.Finish();
  media::VideoReader reader(file);
  int n_read = 0;
  while (reader.Read(&frame)) ++n_read;
  if (n_read == kFrames) return Ok("H.264 is written and read");
  return Broken(fmt::format("{} of {} frames can be read again", n_read, kFrames),
                "install FFmpeg's libraries with libx264 (scripts/setup.sh)");
}

// The param `obs` is one mode in some envs and a list of them in others.
Config ParamsOf(plugin::PluginCatalogue& catalogue, const std::string& env,
                const std::string& obs_mode) {
  if (obs_mode.empty()) return Config::FromJson("{}", "doctor");
  try {
    const std::string one = nlohmann::json{{"obs", obs_mode}}.dump();
    catalogue.DescribeEnv(env, Config::FromJson(one, "doctor"));
    return Config::FromJson(one, "doctor");
  } catch (const Error&) {
    const nlohmann::json list = {{"obs", nlohmann::json::array({obs_mode})}};
    return Config::FromJson(list.dump(), "doctor");
  }
}

// Takes one step and draws one image.
void TryEnv(const plugin::PluginPlace& place, const Config& params) {
  const std::unique_ptr<Env> env = plugin::CreateIsolatedEnv(place, params, {});
  const EnvSpec& spec = env->spec();
  env->Reset(0);
  plugin::ObsMemory obs(spec);
  obs.Observe(*env);
  std::vector<float> action(spec.action_low.size());
  for (std::size_t d = 0; d < action.size(); ++d) {
    action[d] = 0.5F * (spec.action_low[d] + spec.action_high[d]);
  }
  env->Step(action);
  RgbImage image(96, 96);
  env->Render(&image);
}

Checkup CheckEnv(plugin::PluginCatalogue& catalogue, const plugin::PluginInfo& info) {
  EnvSpec spec;
  try {
    spec = catalogue.DescribeEnv(info.name, Config::FromJson("{}", "doctor"));
  } catch (const Error& error) {
    // an env may have params without a default
    if (error.code() != ErrorCode::kConfig) throw;
    return Ok(fmt::format("loads; not tried without params: {}", FirstLine(error.what())));
  }
  std::vector<std::string> modes = spec.obs_modes;
  if (modes.empty()) modes.emplace_back();
  for (const std::string& mode : modes) TryEnv(info.place(), ParamsOf(catalogue, info.name, mode));
  return Ok(fmt::format("steps and draws{}{}", spec.obs_modes.empty() ? "" : " with obs ",
                        fmt::join(spec.obs_modes, ", ")));
}

Checkup CheckPlugin(plugin::PluginCatalogue& catalogue, const plugin::PluginInfo& info) {
  if (!info.refused.empty()) {
    return Broken(FirstLine(info.refused),
                  fmt::format("build {} again, or remove it", info.file.string()));
  }
  if (info.kind == PluginKind::kEnv) return CheckEnv(catalogue, info);
  return Ok(fmt::format("{} loads", info.file.filename().string()));
}

Checkup CheckConfigs(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    if (fs::is_directory(folder / "task") && fs::is_directory(folder / "policy")) {
      return Ok(folder.string());
    }
  }
  return Missing("no folder with task/ and policy/",
                 "give --config-dir, or set DP_BENCH_CONFIG_PATH, to use --env and --policy with "
                 "the shipped configs");
}

const char* Name(Health health) {
  if (health == Health::kOk) return "ok";
  return health == Health::kMissing ? "missing" : "broken";
}

// Checks processor, memory, folders, LibTorch and its devices, MPI, display, videos and every
// plugin. An env is created in a process of its own in each observation mode, takes one step and
// draws one image; a crash is a result like any other. `report` gets each result when it is
// known.
void CheckMachine(const DoctorOptions& options, const std::function<void(const Checkup&)>& report) {
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.experiment.plugin_dirs);
  report(Try("processor", "", CheckProcessor));
  report(Try("memory", "", CheckMemory));
  report(Try("working folder", "", [] { return CheckFolder(fs::current_path()); }));
  report(Try("temporary folder", "set TMPDIR to a writable folder",
             [] { return CheckFolder(fs::temp_directory_path()); }));
  report(Try("LibTorch", "", CheckLibTorch));
  report(Try("GPU", "", CheckGpu));
  report(Try("MPI", "", CheckMpi));
  report(Try("display", "", CheckDisplay));
  report(Try("videos", "", CheckVideos));
  report(Try("configs", "", [&] { return CheckConfigs(options.experiment.config_dirs); }));
  const std::vector<plugin::PluginInfo> plugins = catalogue.List();
  for (const plugin::PluginInfo& info : plugins) {
    report(Try(fmt::format("{} {}", plugin::KindName(info.kind), info.name),
               info.kind == PluginKind::kEnv
                   ? "if it cannot draw, EGL or OSMesa is missing (scripts/setup.sh)"
                   : "",
               [&] { return CheckPlugin(catalogue, info); }));
  }
  if (!plugins.empty()) return;
  report({"plugins", Health::kBroken, "there are none on the search path",
          "give --plugin-dir, or set DP_BENCH_PLUGIN_PATH"});
}

// One or two lines: the result, and the advice if there is one.
std::string ToText(const Checkup& checkup) {
  std::string text =
      fmt::format("{:<8} {:<24} {}\n", Name(checkup.health), checkup.subject, checkup.found);
  if (!checkup.advice.empty()) text += fmt::format("{:<8} {:<24} {}\n", "", "", checkup.advice);
  return text;
}

nlohmann::json ToJson(const Checkup& checkup) {
  return {{"subject", checkup.subject},
          {"health", Name(checkup.health)},
          {"found", checkup.found},
          {"advice", checkup.advice}};
}

int Examine(const DoctorOptions& options) {
  nlohmann::json all = nlohmann::json::array();
  int n_missing = 0;
  int n_broken = 0;
  CheckMachine(options, [&](const Checkup& checkup) {
    n_missing += checkup.health == Health::kMissing ? 1 : 0;
    n_broken += checkup.health == Health::kBroken ? 1 : 0;
    all.push_back(ToJson(checkup));
    if (!options.as_json) core::PrintResult("{}", ToText(checkup));
  });
  if (options.as_json) {
    core::PrintResult("{}\n", all.dump(2));
  } else {
    core::PrintResult("\n{} ok, {} missing, {} broken\n",
                      static_cast<int>(all.size()) - n_missing - n_broken, n_missing, n_broken);
  }
  return n_broken == 0 ? 0 : 1;
}

}  // namespace

Verb AddDoctor(CLI::App* app) {
  auto options = std::make_shared<DoctorOptions>();
  task::ExperimentOptions* const experiment = &options->experiment;
  app->footer(
      "Ends with 1 if something is broken. What is missing is not needed by everybody.\n"
      "With --env: makes, steps and draws an env, and ends with 1 if outcomes are not a function "
      "of\n"
      "the seed. With --url: asks a policy server about observations of the env, and ends with 1 "
      "if\n"
      "an answer is not a function of (observation, seed).\n"
      "Examples:\n"
      "  dp_bench doctor\n"
      "  dp_bench doctor --plugin-dir build/my_plugins --json\n"
      "  dp_bench doctor --env gymnasium env.params.python=venv/bin/python "
      "env.params.id=Pendulum-v1\n"
      "  dp_bench doctor --url ws://127.0.0.1:8000 --env pusht");
  CLI::Option* url =
      app->add_option("--url", options->url, "Of a policy server, instead of this machine");
  AddChoice(app, "--protocol", &options->protocol, {"openpi", "vla_eval", "groot", "starvla"},
            "With --url: what the server speaks")
      ->needs(url);
  CLI::Option* env =
      app->add_option("--env", experiment->env, "Examine an env: configs/task/<env>.json");
  app->add_option("--obs", experiment->obs, "With --env: configs/task/<env>_<obs>.json")
      ->needs(env);
  app->add_option("--task", experiment->task, "With --env: env.params.task")->needs(env);
  app->add_option("overrides", experiment->overrides,
                  "With --env: config values, such as n_action_steps=4")
      ->needs(env);
  AddPluginDirOption(app, &experiment->plugin_dirs);
  AddConfigDirOption(app, &experiment->config_dirs);
  app->add_flag("--json", options->as_json, "Print JSON");
  return [options, experiment] {
    if (!options->url.empty()) {
      return ExaminePolicy(*experiment, options->url, options->protocol, options->as_json);
    }
    if (!experiment->env.empty()) return ExamineEnv(*experiment, options->as_json);
    if (experiment->config_dirs.empty()) experiment->config_dirs = task::DefaultConfigDirs();
    return Examine(*options);
  };
}

}  // namespace dp_bench::app
