// A plugin whose header is wrong in the fields that the build sets.
#include "dp_bench/plugin.h"
#include "toy_env.h"

#ifndef HEADER_MAGIC
#define HEADER_MAGIC ::dp_bench::kPluginMagic
#endif
#ifndef HEADER_ABI
#define HEADER_ABI ::dp_bench::kAbiVersion
#endif
#ifndef HEADER_KIND
#define HEADER_KIND 1
#endif
#ifndef HEADER_BUILD_ID
#define HEADER_BUILD_ID ::dp_bench::kCoreBuildId
#endif
#ifndef HEADER_NAME
#define HEADER_NAME "wrong"
#endif

extern "C" __attribute__((visibility("default"))) const dp_bench::PluginHeader*
dp_bench_plugin() noexcept {
  static const dp_bench::PluginEntry<dp_bench::Env> entry = {
      {HEADER_MAGIC, HEADER_ABI, HEADER_KIND, HEADER_BUILD_ID, HEADER_NAME, "0.1.0"},
      {&dp_bench::broken::ToyEnv::Describe, &dp_bench::broken::ToyEnv::Create}};
  return &entry.header;
}
