// Functions of libraries that are opened at run time.
#pragma once

#include <dlfcn.h>

namespace dp_bench::mujoco {

/// Sets `function` to null and returns false if the library has no such symbol.
template <typename Function>
bool LoadSymbol(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace dp_bench::mujoco
