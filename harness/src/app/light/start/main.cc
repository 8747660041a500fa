// dp_bench_light: runs the verbs that need no LibTorch, and becomes dp_bench_torch (app) for all
// others, and for those that it does not understand. To load LibTorch takes 0.2 s.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "app/light/program.h"
#include "app/light/recall.h"
#include "app/light/verbs.h"
#include "core/console.h"
#include "core/errors.h"
#include "plugin/load_probe.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

fs::path TorchProgram() { return fs::canonical("/proc/self/exe").parent_path() / "dp_bench_torch"; }

// Returns if that fails. In a folder that was removed, a constructor of LibTorch's would end the
// program with a message that names something else.
void BecomeTorchProgram(char** argv) {
  std::error_code error;
  if (!fs::current_path(error).empty()) execv(TorchProgram().c_str(), argv);
}

[[noreturn]] void ThrowCannotStart(const std::string& reason) {
  throw IoError("cannot start {}, the program with the verbs that need LibTorch: {}",
                TorchProgram().string(), reason);
}

int PrintVersion() {
  core::PrintResult("{}\n", VersionText());
  return 0;
}

// `plugins` and `keys`, but not their help and not what `plugins` does.
bool IsQuestion(int argc, char** argv) {
  const std::string_view verb = argv[1];
  if (verb != "plugins" && verb != "keys") return false;
  return std::none_of(argv + 2, argv + argc, [](std::string_view argument) {
    return argument == "new" || argument == "check" || argument == "-h" || argument == "--help";
  });
}

// The verb of this command line with its options; nothing if it is not one of those without
// LibTorch, and for help, errors, and options that only the other program has.
Verb FindVerb(int argc, char** argv) {
  struct LightVerb {
    std::string_view name;
    Verb (*add)(CLI::App*);
  };
  constexpr LightVerb kVerbs[] = {
      {"compare", &AddCompare},
      {"video", &AddVideo},
      {"merge", &AddMergeShards},
      {"gate", [](CLI::App* verb) { return AddGate(verb, /*rollouts=*/nullptr); }}};
  if (argc < 2) return nullptr;
  if (argc == 2 && std::string_view(argv[1]) == "--version") return &PrintVersion;
  if (IsQuestion(argc, argv) && !plugin::CacheFolder().empty()) {
    return [=] { return RecallOrRun(TorchProgram(), argc, argv); };
  }
  const auto* const found = std::ranges::find(kVerbs, argv[1], &LightVerb::name);
  if (found == std::end(kVerbs)) return nullptr;
  const auto program = std::make_shared<CLI::App>("", "dp_bench");
  const Verb verb = found->add(program->add_subcommand(argv[1]));
  program->parse(argc, argv);
  RequireValues(*program);
  return [program, verb] { return verb(); };  // which may ask for the options that were given
}

Verb FindVerbWithoutErrors(int argc, char** argv) {
  try {
    return FindVerb(argc, argv);
  } catch (const std::exception&) {  // the other program reports it
    return nullptr;
  }
}

}  // namespace
}  // namespace dp_bench::app

int main(int argc, char** argv) {
  namespace app = dp_bench::app;
  const app::Verb verb = app::FindVerbWithoutErrors(argc, argv);
  if (!verb) app::BecomeTorchProgram(argv);  // before a signal could be caught and lost
  const std::string reason = std::strerror(errno);
  const auto run = [&] {
    if (!verb) app::ThrowCannotStart(reason);
    app::RequireOneProcess(argv[1]);
    return verb();
  };
  return app::RunProgram(argc, argv, run, &app::DescribeFailure);
}
