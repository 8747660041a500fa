// dp_bench: becomes the program that has the verb. It links the libraries of neither, because those
// of dp_bench_light already take 30 ms to load.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "core/communicator.h"
#include "core/console.h"
#include "dp_bench/error.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

// The threads of LibTorch (libgomp) spin while they wait for each other. Next to another busy
// process or our own env workers, a spinning thread takes whole time slices from the thread that it
// waits for: training was 7 times slower. libgomp reads this when it is loaded.
void LimitSpinning() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "5000", /*replace=*/0);
}

// For the others it would become dp_bench_torch anyway.
bool MayNeedNoTorch(int argc, char** argv) {
  constexpr std::string_view kVerbs[] = {"--version", "compare", "video",  "gate",
                                         "keys",      "merge",   "plugins"};
  return argc >= 2 && std::ranges::find(kVerbs, argv[1]) != std::end(kVerbs);
}

// In a folder that was removed, a constructor of LibTorch's would end the program with a message
// that names something else.
bool HasWorkingFolder() {
  std::error_code error;
  return !fs::current_path(error).empty();
}

// Returns if that fails.
void Become(const fs::path& program, char** argv) { execv(program.c_str(), argv); }

}  // namespace
}  // namespace dp_bench::app

int main(int argc, char** argv) {
  namespace app = dp_bench::app;
  namespace core = dp_bench::core;
  namespace fs = std::filesystem;
  app::LimitSpinning();
  core::ShareCores(core::ReadLaunch());
  std::error_code error;
  const fs::path folder = fs::canonical("/proc/self/exe", error).parent_path();
  if (!app::MayNeedNoTorch(argc, argv) && app::HasWorkingFolder()) {
    app::Become(folder / "dp_bench_torch", argv);
  }
  const fs::path light = folder / "dp_bench_light";
  app::Become(light, argv);  // which also says why the other cannot start
  core::PrintStatus("dp_bench: cannot start {}, a part of dp_bench: {}. Install dp_bench again.\n",
                    light.string(), std::strerror(errno));
  return dp_bench::ExitCodeFor(dp_bench::ErrorCode::kIo);
}
