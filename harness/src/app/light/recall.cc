#include "app/light/recall.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/sha256.h"
#include "core/temporary_folder.h"
#include "dp_bench/error.h"
#include "plugin/catalogue.h"
#include "plugin/load_probe.h"
#include "plugin/worker_process.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxAnswer = 1 << 20;

// The shared libraries in a folder, with what changes when one is written again.
std::string StateOf(const fs::path& folder) {
  std::vector<std::string> lines;
  std::error_code none;  // as an empty folder
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (!entry.is_regular_file(none) || entry.path().extension() != ".so") continue;
    lines.push_back(fmt::format("{} {} {}\n", entry.path().string(), entry.file_size(),
                                entry.last_write_time().time_since_epoch().count()));
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

// Arguments that are folders hold plugins.
std::string StateOfAll(const fs::path& program, std::span<char* const> arguments) {
  std::vector<fs::path> folders = plugin::PluginCatalogue::DefaultSearchPath({});
  folders.push_back(plugin::LibraryFolder());
  for (const std::string_view argument : arguments) {
    folders.emplace_back(argument.substr(argument.find('=') + 1));
  }
  std::string text = fmt::format("{} {}\n", program.string(),
                                 fs::last_write_time(program).time_since_epoch().count());
  for (const fs::path& folder : folders) text += StateOf(folder);
  return text;
}

fs::path AnswerFolder() { return plugin::CacheFolder() / "answers"; }

// Runs the program with its standard output in the file. Returns its exit code.
int RunInto(const fs::path& file, const fs::path& program, char** argv) {
  const int output = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const pid_t child = fork();
  if (child == 0) {
    dup2(output, STDOUT_FILENO);
    execv(program.c_str(), argv);
    _exit(ExitCodeFor(ErrorCode::kIo));
  }
  close(output);
  int status = 0;
  const bool has_ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
  return has_ended ? WEXITSTATUS(status) : ExitCodeFor(ErrorCode::kInternal);
}

// Where that fails, the next question takes longer.
void Keep(const fs::path& answer, const std::string& text) {
  try {
    core::CreateFolders(AnswerFolder());
    core::WriteFileAtomically(answer, text);
  } catch (const Error&) {
  }
}

}  // namespace

int RecallOrRun(const fs::path& program, int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
  const std::string question = fmt::format("{} {}", program.string(), fmt::join(arguments, "\n"));
  const fs::path answer = AnswerFolder() / core::Sha256Hex(question);
  const std::string state = core::Sha256Hex(StateOfAll(program, arguments.subspan(1))) + "\n";
  if (fs::exists(answer)) {
    const std::string text = core::ReadTextFile(answer, kMaxAnswer);
    if (text.starts_with(state)) {
      core::WriteResult(text.substr(state.size()));
      return 0;
    }
  }
  const core::TemporaryFolder scratch;
  const int exit_code = RunInto(scratch.path() / "output", program, argv);
  const std::string text = core::ReadTextFile(scratch.path() / "output", kMaxAnswer);
  if (exit_code == 0) Keep(answer, state + text);
  core::WriteResult(text);
  return exit_code;
}

}  // namespace dp_bench::app
