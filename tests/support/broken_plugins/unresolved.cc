// A plugin that needs an undefined function: immediate binding must detect it while loading.
#include "dp_bench/plugin.h"

extern "C" int function_that_nobody_has();

extern "C" __attribute__((visibility("default"))) const dp_bench::PluginHeader*
dp_bench_plugin() noexcept {
  static const dp_bench::PluginHeader header = {
      dp_bench::kPluginMagic, static_cast<std::uint32_t>(function_that_nobody_has())};
  return &header;
}
