// A good env whose static constructor does what DPB_TEST_CONSTRUCTOR says.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "dp_bench/plugin.h"
#include "toy_env.h"

namespace {

struct Misbehaviour {
  Misbehaviour() {
    const char* const text = std::getenv("DPB_TEST_CONSTRUCTOR");
    const std::string_view kind = text == nullptr ? "" : text;
    if (kind == "exit") std::exit(0);
    if (kind == "quick_exit") std::quick_exit(0);
    if (kind == "bare_exit") _exit(0);
    if (kind == "segv") std::raise(SIGSEGV);
    if (kind == "throw") throw std::runtime_error("no licence");
    if (kind == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  }
} misbehaviour;

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Env, "constructed", "0.1.0", &dp_bench::broken::ToyEnv::Describe,
                  &dp_bench::broken::ToyEnv::Create)
