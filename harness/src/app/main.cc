// dp_bench: the program. Chooses the verb, turns errors into messages and exit codes.
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

#include "app/command_line.h"
#include "app/failure.h"
#include "app/process.h"
#include "app/ranks.h"
#include "app/verbs.h"
#include "core/communicator.h"
#include "core/console.h"
#include "core/stop_signal.h"
#include "dp_bench/build_id.h"
#include "dp_bench/error.h"
#include "plugin/open_call.h"

namespace {

// In a folder that was removed, a constructor of LibTorch's ends the program with a message that
// names something else.
void RequireWorkingFolder() {
  constexpr std::string_view kMessage =
      "dp_bench: the working folder does not exist any more; change to another one.\n";
  std::array<char, PATH_MAX> folder{};
  if (::getcwd(folder.data(), folder.size()) != nullptr || errno != ENOENT) return;
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(dp_bench::ExitCodeFor(dp_bench::ErrorCode::kIo));
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
  const bool is_shared = dp_bench::core::ShareCores(dp_bench::core::ReadLaunch());
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

using Verbs = std::map<CLI::App*, dp_bench::app::Verb>;

// Help and version go to standard output as results do.
int Exit(const CLI::App& app, const CLI::ParseError& reason) {
  std::ostringstream result;
  std::ostringstream status;
  const int exit_code = app.exit(reason, result, status);
  dp_bench::core::WriteResult(result.str());
  dp_bench::core::WriteStatus(status.str());
  return exit_code == 0 ? 0 : dp_bench::ExitCodeFor(dp_bench::ErrorCode::kUsage);
}

void Parse(int argc, char** argv, CLI::App* app, const Verbs& verbs) {
  std::vector<std::string> names;
  for (const auto& [verb, run] : verbs) names.push_back(verb->get_name());
  dp_bench::app::RequireKnownVerb(argc, argv, names);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) throw;  // --help
    dp_bench::app::RequireKnownOptions(*app);
    for (const auto& [verb, run] : verbs) {
      if (verb->parsed()) dp_bench::app::RequireKnownOptions(*verb);
    }
    throw;
  }
}

int Main(int argc, char** argv) {
  dp_bench::app::RequireUtf8(argc, argv);
  CLI::App app(kDescription, "dp_bench");
  app.set_version_flag("--version", std::string("dp_bench ") + dp_bench::kVersion + " (" +
                                        dp_bench::kTorchBuildId +
                                        ")\nMPI: " + dp_bench::core::MpiVersion());
  app.require_subcommand(0, 1);

  // without a verb, the options are those of `run`
  const dp_bench::app::Verb default_verb = dp_bench::app::AddRun(&app);
  app.footer(kExamples);
  struct Entry {
    const char* name;
    const char* description;
    dp_bench::app::Verb (*add)(CLI::App*);
    bool is_for_ranks = false;  // mpirun may start several processes
  };
  Verbs verbs;
  for (const Entry& entry :
       {Entry{"run", "Train or resume, evaluate, film, report", &dp_bench::app::AddRun, true},
        Entry{"train", "Train a policy", &dp_bench::app::AddTrain, true},
        Entry{"eval", "Evaluate a checkpoint", &dp_bench::app::AddEval, true},
        Entry{"compare", "Compare finished runs on their shared seeds", &dp_bench::app::AddCompare},
        Entry{"gate", "Compare a run's success rate with a baseline, for CI",
              &dp_bench::app::AddGate},
        Entry{"replay", "Run one episode of a finished run again, and film it",
              &dp_bench::app::AddReplay},
        Entry{"film", "Put the filmed episodes of a run into one video or GIF",
              &dp_bench::app::AddFilm},
        Entry{"diff", "Find the first step in which two runs differ", &dp_bench::app::AddDiff},
        Entry{"collect", "Collect a dataset with the expert of an env", &dp_bench::app::AddCollect},
        Entry{"dataset", "Convert, merge, split, trim and check datasets",
              &dp_bench::app::AddDataset},
        Entry{"export", "Write a checkpoint for inference, or a policy for LeRobot",
              &dp_bench::app::AddExport},
        Entry{"import", "Make a checkpoint of a LeRobot policy", &dp_bench::app::AddImport},
        Entry{"distill", "Teach a policy to plan in one or two network evaluations",
              &dp_bench::app::AddDistill, true},
        Entry{"diagnose", "Find out why a training or sampling does not work",
              &dp_bench::app::AddDiagnose},
        Entry{"doctor", "Show what this machine offers and what is missing",
              &dp_bench::app::AddDoctor},
        Entry{"inspect", "Show a policy's shapes, parameters and memory",
              &dp_bench::app::AddInspect},
        Entry{"view", "Show an env in a window: policy, expert, recording or person",
              &dp_bench::app::AddView},
        Entry{"plugins", "List the available plugins", &dp_bench::app::AddPlugins},
        Entry{"keys", "Print every key of a config and its meaning", &dp_bench::app::AddKeys},
        Entry{"profile", "Show where training and inference spend their time",
              &dp_bench::app::AddProfile},
        Entry{"bench", "Measure the speed of the parts", &dp_bench::app::AddBench}}) {
    CLI::App* verb = app.add_subcommand(entry.name, entry.description);
    verbs[verb] = entry.add(verb);
    if (!entry.is_for_ranks) {
      verb->parse_complete_callback([verb] { dp_bench::app::RequireOneProcess(verb->get_name()); });
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
    const dp_bench::app::Failure failure = dp_bench::app::DescribeFailure(exception);
    dp_bench::core::PrintStatus("dp_bench: {}\n", failure.message);
    return failure.exit_code;
  }
}

// A result that could not be written is a failure.
int RequireOutput(int exit_code) {
  const std::optional<std::string> reason = dp_bench::core::LostOutput();
  if (!reason) return exit_code;
  dp_bench::core::PrintStatus(
      "dp_bench: cannot write to standard output: {}. The missing output is lost; files are not "
      "affected.\n",
      *reason);
  return exit_code != 0 ? exit_code : dp_bench::ExitCodeFor(dp_bench::ErrorCode::kIo);
}

}  // namespace

int main(int argc, char** argv) {
  dp_bench::app::SettleStandardStreams();
  dp_bench::app::KeepFreedMemory();
  dp_bench::core::WatchStopSignals();
  const dp_bench::core::SignalStack stack;
  const dp_bench::plugin::EarlyEndReport report;
  return RequireOutput(MainOrFailure(argc, argv));
}
