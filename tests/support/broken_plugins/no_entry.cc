// A library without the entry symbol, whose static constructor leaves a trace when it is loaded.
#include <cstdio>
#include <cstdlib>

namespace {

struct Canary {
  Canary() {
    if (const char* const path = std::getenv("DPB_TEST_CANARY")) {
      if (std::FILE* const file = std::fopen(path, "w")) std::fclose(file);
    }
  }
} canary;

}  // namespace

extern "C" __attribute__((visibility("default"))) int something_else() { return 1; }
