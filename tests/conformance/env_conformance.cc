// The program of the env conformance suite; the checks are in env_conformance_checks.cc. It loads
// the library through the plugin host, as dp_bench does.
//   env_conformance --plugin=libdpb_env_pusht.so --params='{"max_steps": 300}'
#include "env_conformance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>

#include "plugin/catalogue.h"

namespace {

// Heap allocations of the whole process: an operator new of the program serves the libraries too.
std::atomic<long> n_allocations{0};

void* CountedAllocate(std::size_t size) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return CountedAllocate(size); }
void* operator new[](std::size_t size) { return CountedAllocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace dp_bench::conformance {
namespace {

std::filesystem::path plugin_file;
std::string params_text = "{}";

}  // namespace

const std::string& ParamsJson() { return params_text; }

std::unique_ptr<Env> MakeEnv(const std::string& params_json) {
  static PluginCatalogue catalogue({});
  static const std::string name = catalogue.LoadFile(plugin_file).name;
  return catalogue.Create<Env>(name, Config::FromJson(params_json, "--params"));
}

long NumAllocations() { return n_allocations.load(); }

/// Returns false when an argument is none of ours.
bool ReadArgument(const std::string& arg) {
  if (arg.rfind("--plugin=", 0) == 0) {
    plugin_file = arg.substr(9);
    return true;
  }
  if (arg.rfind("--params=", 0) == 0) {
    if (arg.size() > 9) params_text = arg.substr(9);
    return true;
  }
  return false;
}

}  // namespace dp_bench::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool understood = argc > 1;
  for (int i = 1; i < argc; ++i) {
    understood = understood && dp_bench::conformance::ReadArgument(argv[i]);
  }
  if (!understood || dp_bench::conformance::plugin_file.empty()) {
    std::cerr << "wanted --plugin=FILE [--params=JSON]\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
