// Preloaded (LD_PRELOAD), it fills what malloc and its kin return with bytes of 0xff: a NaN in
// float32 and in bfloat16. So tests fail if a result depends on memory that nothing was written
// to. scripts/check.sh uninitialised
#include <dlfcn.h>

#include <cstddef>
#include <cstring>

namespace {

template <class Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  static auto* const next = Next<int(void**, std::size_t, std::size_t)>("posix_memalign");
  const int error = next(memory, alignment, size);
  if (error == 0) std::memset(*memory, 0xff, size);
  return error;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  static auto* const next = Next<void*(std::size_t, std::size_t)>("aligned_alloc");
  void* const memory = next(alignment, size);
  return memory == nullptr ? nullptr : std::memset(memory, 0xff, size);
}

void* malloc(std::size_t size) noexcept {
  static auto* const next = Next<void*(std::size_t)>("malloc");
  void* const memory = next(size);
  return memory == nullptr ? nullptr : std::memset(memory, 0xff, size);
}

}  // extern "C"
