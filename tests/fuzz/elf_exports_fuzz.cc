// A shared library that claims to be a plugin.
#include "fuzz.h"
#include "plugin/elf_exports.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts(
      [&] { plugin::ExportsSymbol(input.bytes(), "libdpb_env_x.so", "dp_bench_plugin"); });
}
