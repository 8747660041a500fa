#include "app/light/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/communicator.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/stop_signal.h"
#include "core/utf8.h"
#include "dp_bench/build_id.h"
#include "plugin/open_call.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

void SettleStandardStreams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // gets the lowest free number, which is this one; writes to a read-only descriptor fail
    const int opened = open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != stream) close(opened);
  }
}

std::string WithoutForeignBytes(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

// With control characters made visible, line ends too.
std::string OnOneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    line += code < ' ' || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return line;
}

void RequireUtf8(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    // the value of an override may be JSON on several lines
    const std::string line = OnOneLine(argv[i]);
    if (line != argv[i] && line.find('=') == std::string::npos) {
      throw UsageError(
          "argument {}, '{}', has control characters, which no name or path may "
          "have here. Was the output of another command taken for a name?",
          i, line);
    }
    if (core::IsUtf8(argv[i])) continue;
    throw UsageError(
        "argument {}, '{}', is not UTF-8. Paths and values are written into "
        "JSON files, which must be UTF-8; rename the file.",
        i, WithoutForeignBytes(argv[i]));
  }
}

// In such a folder, relative paths have no meaning, and a constructor of LibTorch's ends the
// program with a message that names something else.
void RequireWorkingFolder() {
  std::error_code error;
  const fs::path folder = fs::current_path(error);
  if (!folder.empty() || error != std::errc::no_such_file_or_directory) return;
  throw IoError("the working folder does not exist any more; change to another one.");
}

constexpr int kNotUtf8 = 316;  // id of an exception of nlohmann/json

// what() is "filesystem error: cannot create directories: Permission denied [/a] [/b]".
Failure OfFileSystem(const fs::filesystem_error& error) {
  std::string paths;
  for (const fs::path& path : {error.path1(), error.path2()}) {
    if (!path.empty()) paths += fmt::format("{}'{}'", paths.empty() ? "" : ", ", path.string());
  }
  const std::string what = error.what();
  constexpr std::string_view kPrefix = "filesystem error: ";
  const std::size_t begin = what.starts_with(kPrefix) ? kPrefix.size() : 0;
  const std::size_t end = what.find(": " + error.code().message());
  std::string refused = what.substr(begin, end == std::string::npos ? end : end - begin);
  if (refused.find("cannot") == std::string::npos) refused = "cannot access";  // "status"
  return {
      fmt::format(
          "{} {}: {}. Check that the path exists, is not too long, and can be read and written.",
          refused, paths, error.code().message()),
      ExitCodeFor(ErrorCode::kIo)};
}

Failure OfBug(std::string_view what) {
  return {fmt::format("{}\nThis is a bug in dp_bench.", what), ExitCodeFor(ErrorCode::kInternal)};
}

// Prints the failure; returns its exit code.
int Report(const Failure& failure) {
  core::PrintStatus("dp_bench: {}\n", failure.message);
  return failure.exit_code;
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

Failure FailureOfMemory(std::string_view what) {
  return {
      fmt::format("out of memory: {}\n"
                  "  For a training, in this order: lower dataloader.batch_size\n"
                  "  (training.gradient_accumulate_every keeps the effective size), set\n"
                  "  training.mixed_precision=bf16, policy.params.gradient_checkpointing=true,\n"
                  "  a smaller policy.params.resize_shape, fewer cameras in shape_meta, a smaller\n"
                  "  policy.params.obs_encoder.resnet_width. `dp_bench profile` estimates what "
                  "each saves.\n"
                  "  For an evaluation lower env_runner.n_workers and env_runner.micro_batch.\n"
                  "  `dp_bench inspect --policy P --env E` shows the memory of a training step.",
                  what),
      core::kExitOutOfMemory};
}

Failure DescribeFailure(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    return {error->what(), ExitCodeFor(error->code())};
  }
  if (const auto* error = dynamic_cast<const fs::filesystem_error*>(&exception)) {
    return OfFileSystem(*error);
  }
  if (const auto* error = dynamic_cast<const std::system_error*>(&exception)) {
    return {fmt::format("the system refused: {}", error->what()), ExitCodeFor(ErrorCode::kIo)};
  }
  if (const auto* error = dynamic_cast<const std::bad_alloc*>(&exception)) {
    return FailureOfMemory(error->what());
  }
  const auto* json = dynamic_cast<const nlohmann::json::exception*>(&exception);
  if (json != nullptr && json->id == kNotUtf8) {
    return {fmt::format("a path or name has bytes that are not UTF-8, which JSON files cannot "
                        "contain; rename it ({})",
                        json->what()),
            ExitCodeFor(ErrorCode::kUsage)};
  }
  return OfBug(exception.what());
}

int RunProgram(int argc, char** argv, const std::function<int()>& main, DescribeFunction describe) {
  SettleStandardStreams();
  core::WatchStopSignals();
  const core::SignalStack stack;
  const plugin::EarlyEndReport report;
  try {
    RequireWorkingFolder();
    RequireUtf8(argc, argv);
    return RequireOutput(main());
  } catch (const std::exception& exception) {
    return RequireOutput(Report(describe(exception)));
  }
}

void RequireOneProcess(std::string_view verb) {
  const int n_ranks = core::ReadLaunch().n_ranks;
  if (n_ranks == 1) return;
  throw UsageError(
      "mpirun started {} processes of dp_bench {}, which supports only one; "
      "train, run, eval and distill support several, and collect and suite with --shard auto",
      n_ranks, verb);
}

std::string VersionText() {
  return fmt::format("dp_bench {} ({})\nMPI: {}", kVersion, kTorchBuildId, core::MpiVersion());
}

}  // namespace dp_bench::app
