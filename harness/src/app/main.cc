// dp_bench_torch: all verbs, in the program that dp_bench (app/start) becomes for those that need
// LibTorch, for help and for errors of the command line.

#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "app/light/verbs.h"
#include "app/process.h"
#include "app/verbs.h"
#include "core/console.h"
#include "core/control_groups.h"
#include "core/machine.h"
#include "dp_bench/error.h"

namespace dp_bench::app {
namespace {

constexpr const char* kDescription = R"(dp_bench: train, roll out and measure Diffusion Policies.

Without a verb it acts as `run`: collects demonstrations, trains, evaluates, records videos, reports.
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

// LibTorch counts the processors of the machine. Threads beyond the quota of a container wait for
// each other while all are stopped.
void KeepToQuota() {
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    if (std::getenv(variable) != nullptr) return;
  }
  const std::optional<int> quota = core::ProcessorsInGroups();
  if (quota && *quota < at::get_num_threads()) at::set_num_threads(*quota);
}

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "dp_bench");
  app.set_version_flag("--version", VersionText());
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
       {Entry{"run", "Train or resume, evaluate, record videos, report", &AddRun, true},
        Entry{"train", "Train a policy", &AddTrain, true},
        Entry{"eval", "Evaluate a checkpoint", &AddEval, true},
        Entry{"merge", "Make one evaluation of its shards", &AddMergeShards},
        Entry{"suite", "Fill a table of policies and tasks: collect, train, evaluate", &AddSuite},
        Entry{"compare", "Compare finished runs on their shared seeds", &AddCompare},
        Entry{"gate", "Compare a run's success rate with a baseline, for CI", &AddGateWithRollouts},
        Entry{"replay", "Run one episode of a finished run again, and record its video",
              &AddReplay},
        Entry{"video", "Put the videos of a run into one video or GIF", &AddVideo},
        Entry{"diff", "Find the first step in which two runs differ", &AddDiff},
        Entry{"collect", "Collect a dataset with the expert of an env", &AddCollect},
        Entry{"dataset", "Convert, merge, split, trim and check datasets", &AddDataset},
        Entry{"export", "Write a checkpoint for inference, or a policy for LeRobot", &AddExport},
        Entry{"import", "Make a checkpoint of a LeRobot policy", &AddImport},
        Entry{"distill", "Teach a policy to plan in one or two network evaluations", &AddDistill,
              true},
        Entry{"correct", "Train a head that corrects a policy's chunks at every step", &AddCorrect},
        Entry{"diagnose", "Find out why a training or sampling does not work", &AddDiagnose},
        Entry{"doctor", "Show what this machine offers and what is missing", &AddDoctor},
        Entry{"inspect", "Show a policy's shapes, parameters and memory", &AddInspect},
        Entry{"view", "Show an env in a window: policy, expert, recording or person", &AddView},
        Entry{"plugins", "List the available plugins", &AddPlugins},
        Entry{"keys", "Print every key of a config and its meaning", &AddKeys},
        Entry{"profile", "Show where training and inference spend their time", &AddProfile},
        Entry{"serve", "Let other programs ask a checkpoint for actions", &AddServe},
        Entry{"bench", "Measure the speed of the parts", &AddBench}}) {
    CLI::App* verb = app.add_subcommand(entry.name, entry.description);
    verbs[verb] = entry.add(verb);
    if (!entry.is_for_ranks) {
      verb->parse_complete_callback([verb] {
        const CLI::Option* shard = verb->get_option_no_throw("--shard");
        const bool takes_a_shard = shard != nullptr && *shard && shard->as<std::string>() == "auto";
        if (!takes_a_shard) RequireOneProcess(verb->get_name());
      });
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

}  // namespace
}  // namespace dp_bench::app

int main(int argc, char** argv) {
  namespace app = dp_bench::app;
  dp_bench::core::KeepFreedMemory();
  app::EndAtOnce(app::RunProgram(
      argc, argv,
      [&] {
        app::KeepToQuota();
        return app::Main(argc, argv);
      },
      &app::DescribeTorchFailure));
}
