// dp_bench: the program. Chooses the verb, turns errors into messages and exit codes.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "app/process.h"
#include "app/verbs.h"
#include "core/communicator.h"
#include "core/console.h"
#include "core/stop_signal.h"
#include "dp_bench/build_id.h"
#include "dp_bench/error.h"
#include "plugin/open_call.h"

namespace dp_bench::app {
namespace {

// In a folder that was removed, a constructor of LibTorch's ends the program with a message that
// names something else.
void RequireWorkingFolder() {
  constexpr std::string_view kMessage =
      "dp_bench: the working folder does not exist any more; change to another one.\n";
  std::array<char, PATH_MAX> folder{};
  if (::getcwd(folder.data(), folder.size()) != nullptr || errno != ENOENT) return;
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(ExitCodeFor(ErrorCode::kIo));
}

// The threads of LibTorch (libgomp) spin while they wait for each other. Next to another busy
// process or our own env workers, a spinning thread takes whole time slices from the thread that it
// waits for: training was 7 times slower. Returns whether the environment changed.
bool LimitSpinning() {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) {
    return false;
  }
  setenv("GOMP_SPINCOUNT", "5000", /*replace=*/1);
  return true;
}

// libgomp reads its settings when it is loaded, so the program starts itself again. If that fails,
// it is only slower.
void SettleThreads(char** argv) {
  const bool is_limited = LimitSpinning();
  const bool is_shared = core::ShareCores(core::ReadLaunch());
  if (is_limited || is_shared) execv("/proc/self/exe", argv);
}

// Runs before the constructors of the shared libraries: those of LibTorch take half of the time to
// start, and would run twice if the program started itself again after them.
void BeforeLibraries(int /*argc*/, char** argv, char** environment) {
  ::environ = environment;  // which the C library sets later
  RequireWorkingFolder();
  SettleThreads(argv);
}

[[gnu::used,
  gnu::section(".preinit_array")]] void (*const before_libraries)(int, char**,
                                                                  char**) = &BeforeLibraries;

constexpr const char* kDescription = R"(dp_bench: train, roll out and measure Diffusion Policies.

Without a verb it acts as `run`: collects demonstrations, trains, evaluates, films, reports.
Any config value can be changed after a verb: training.num_epochs=10)";

constexpr const char* kExamples =
    R"(Examples:
  dp_bench --policy transformer --env kuavo_dualarm
  dp_bench eval --checkpoint models/pusht_unet_hybrid
  dp_bench plugins)";

using Verbs = std::map<CLI::App*, Verb>;

// Help and version go to standard output as results do.
int Exit(const CLI::App& app, const CLI::ParseError& reason) {
  std::ostringstream result;
  std::ostringstream status;
  const int exit_code = app.exit(reason, result, status);
  core::WriteResult(result.str());
  core::WriteStatus(status.str());
  return exit_code == 0 ? 0 : ExitCodeFor(ErrorCode::kUsage);
}

// An unset variable of a script, as in --json "$RESULT", must not leave out the result.
void RequireValues(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      throw Error(ErrorCode::kUsage,
                  fmt::format("{}: expected a value, found none", option->get_name()));
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) RequireValues(*verb);
}

void Parse(int argc, char** argv, CLI::App* app, const Verbs& verbs) {
  std::vector<std::string> names;
  for (const auto& [verb, run] : verbs) names.push_back(verb->get_name());
  RequireKnownVerb(argc, argv, names);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) throw;  // --help
    RequireKnownOptions(*app);
    for (const auto& [verb, run] : verbs) {
      if (verb->parsed()) RequireKnownOptions(*verb);
    }
    throw;
  }
  RequireValues(*app);
}

int Main(int argc, char** argv) {
  RequireUtf8(argc, argv);
  CLI::App app(kDescription, "dp_bench");
  app.set_version_flag("--version", std::string("dp_bench ") + kVersion + " (" + kTorchBuildId +
                                        ")\nMPI: " + core::MpiVersion());
  app.require_subcommand(0, 1);

  // without a verb, the options are those of `run`
  const Verb default_verb = AddRun(&app);
  app.footer(kExamples);
  struct Entry {
    const char* name;
    const char* description;
    Verb (*add)(CLI::App*);
    bool is_for_ranks = false;  // mpirun may start several processes
  };
  Verbs verbs;
  for (const Entry& entry :
       {Entry{"run", "Train or resume, evaluate, film, report", &AddRun, true},
        Entry{"train", "Train a policy", &AddTrain, true},
        Entry{"eval", "Evaluate a checkpoint", &AddEval, true},
        Entry{"compare", "Compare finished runs on their shared seeds", &AddCompare},
        Entry{"gate", "Compare a run's success rate with a baseline, for CI", &AddGate},
        Entry{"replay", "Run one episode of a finished run again, and film it", &AddReplay},
        Entry{"film", "Put the filmed episodes of a run into one video or GIF", &AddFilm},
        Entry{"diff", "Find the first step in which two runs differ", &AddDiff},
        Entry{"collect", "Collect a dataset with the expert of an env", &AddCollect},
        Entry{"dataset", "Convert, merge, split, trim and check datasets", &AddDataset},
        Entry{"export", "Write a checkpoint for inference, or a policy for LeRobot", &AddExport},
        Entry{"import", "Make a checkpoint of a LeRobot policy", &AddImport},
        Entry{"distill", "Teach a policy to plan in one or two network evaluations", &AddDistill,
              true},
        Entry{"diagnose", "Find out why a training or sampling does not work", &AddDiagnose},
        Entry{"doctor", "Show what this machine offers and what is missing", &AddDoctor},
        Entry{"inspect", "Show a policy's shapes, parameters and memory", &AddInspect},
        Entry{"view", "Show an env in a window: policy, expert, recording or person", &AddView},
        Entry{"plugins", "List the available plugins", &AddPlugins},
        Entry{"keys", "Print every key of a config and its meaning", &AddKeys},
        Entry{"profile", "Show where training and inference spend their time", &AddProfile},
        Entry{"bench", "Measure the speed of the parts", &AddBench}}) {
    CLI::App* verb = app.add_subcommand(entry.name, entry.description);
    verbs[verb] = entry.add(verb);
    if (!entry.is_for_ranks) {
      verb->parse_complete_callback([verb] { RequireOneProcess(verb->get_name()); });
    }
  }

  try {
    Parse(argc, argv, &app, verbs);
  } catch (const CLI::ParseError& reason) {
    return Exit(app, reason);
  }
  for (const auto& [verb, run] : verbs) {
    if (verb->parsed()) return run();
  }
  return default_verb();
}

int MainOrFailure(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& exception) {
    const Failure failure = DescribeFailure(exception);
    core::PrintStatus("dp_bench: {}\n", failure.message);
    return failure.exit_code;
  }
}

// A result that could not be written is a failure.
int RequireOutput(int exit_code) {
  const std::optional<std::string> reason = core::LostOutput();
  if (!reason) return exit_code;
  core::PrintStatus(
      "dp_bench: cannot write to standard output: {}. The missing output is lost; files are not "
      "affected.\n",
      *reason);
  return exit_code != 0 ? exit_code : ExitCodeFor(ErrorCode::kIo);
}

}  // namespace
}  // namespace dp_bench::app

int main(int argc, char** argv) {
  namespace app = dp_bench::app;
  app::SettleStandardStreams();
  app::KeepFreedMemory();
  dp_bench::core::WatchStopSignals();
  const dp_bench::core::SignalStack stack;
  const dp_bench::plugin::EarlyEndReport report;
  return app::RequireOutput(app::MainOrFailure(argc, argv));
}
