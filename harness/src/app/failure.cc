#include "app/failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/exit_code.h"
#include "dp_bench/error.h"
#include "policy/device.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

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

Failure OfMemory(std::string_view what) {
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

Failure OfBug(std::string_view what) {
  return {fmt::format("{}\nThis is a bug in dp_bench.", what), ExitCodeFor(ErrorCode::kInternal)};
}

}  // namespace

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
    return OfMemory(error->what());
  }
  if (const auto* error = dynamic_cast<const c10::Error*>(&exception)) {
    return policy::IsOutOfMemory(*error) ? OfMemory(error->what_without_backtrace())
                                         : OfBug(error->what());
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

}  // namespace dp_bench::app
