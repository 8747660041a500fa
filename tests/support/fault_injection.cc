// The calls that writers make; calls of a kind are counted together. rename, mkdir and unlink are
// not interrupted by signals (POSIX), the others are.
#include "support/fault_injection.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string>

#define DPB_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace dp_bench {
namespace {

struct Plan {
  std::string folder;
  FaultyCall call = FaultyCall::kOpen;
  int error = 0;
  int place = 0;
  std::atomic<int> n_calls{0};
};

Plan plan;
std::atomic<bool> is_armed{false};

// The next definition of a function: the C library's, or a sanitizer's.
template <class Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool IsBelow(const char* path) {
  return path != nullptr && std::strncmp(path, plan.folder.c_str(), plan.folder.size()) == 0;
}

std::string PathOf(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = readlink(link.c_str(), path.data(), path.size() - 1);
  return size < 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(size));
}

// Whether the call must fail now; a relative path belongs to the folder that it is relative to.
bool Strikes(FaultyCall call, const char* path, int folder = AT_FDCWD) {
  if (!is_armed || call != plan.call) return false;
  const bool is_counted = IsBelow(path) || (folder != AT_FDCWD && IsBelow(PathOf(folder).c_str()));
  return is_counted && ++plan.n_calls == plan.place;
}

bool Strikes(FaultyCall call, int descriptor) {
  if (!is_armed || call != plan.call) return false;
  return IsBelow(PathOf(descriptor).c_str()) && ++plan.n_calls == plan.place;
}

int Fail() {
  errno = plan.error == kShortWriteThenFull ? ENOSPC : plan.error;
  return -1;
}

enum class Share { kNone, kHalf, kAll };

Share ShareOfWrite(int descriptor) {
  const bool strikes = Strikes(FaultyCall::kWrite, descriptor);
  if (strikes) return plan.error >= 0 ? Share::kNone : Share::kHalf;
  const bool is_full = is_armed && plan.call == FaultyCall::kWrite &&
                       plan.error == kShortWriteThenFull && plan.n_calls == plan.place + 1;
  return is_full && IsBelow(PathOf(descriptor).c_str()) ? Share::kNone : Share::kAll;
}

size_t Part(Share share, size_t size) { return share == Share::kHalf ? (size + 1) / 2 : size; }

// Opening a folder is not interrupted by signals (POSIX: opendir).
bool CanFail(int flags) { return plan.error != EINTR || (flags & O_DIRECTORY) == 0; }

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

}  // namespace

std::string_view NameOf(FaultyCall call) {
  constexpr std::array<std::string_view, 7> kNames = {"open",  "write",  "fsync",   "rename",
                                                      "mkdir", "remove", "truncate"};
  return kNames[static_cast<std::size_t>(call)];
}

InjectedFault::InjectedFault(const std::filesystem::path& folder, FaultyCall call, int error,
                             int place) {
  plan.folder = folder.string();
  plan.call = call;
  plan.error = error;
  plan.place = place;
  plan.n_calls = 0;
  is_armed = true;
}

InjectedFault::~InjectedFault() { is_armed = false; }

bool InjectedFault::has_struck() const { return plan.n_calls >= plan.place; }

}  // namespace dp_bench

using dp_bench::CanFail;
using dp_bench::Fail;
using dp_bench::FaultyCall;
using dp_bench::ModeOf;
using dp_bench::Next;
using dp_bench::Part;
using dp_bench::Share;
using dp_bench::ShareOfWrite;
using dp_bench::Strikes;

#define DPB_OPEN(name)                                                       \
  DPB_INTERPOSED int name(const char* path, int flags, ...) {                \
    va_list arguments;                                                       \
    va_start(arguments, flags);                                              \
    const mode_t mode = ModeOf(flags, arguments);                            \
    va_end(arguments);                                                       \
    if (CanFail(flags) && Strikes(FaultyCall::kOpen, path)) return Fail();   \
    static const auto next = Next<int (*)(const char*, int, mode_t)>(#name); \
    return next(path, flags, mode);                                          \
  }
DPB_OPEN(open)
DPB_OPEN(open64)

#define DPB_OPENAT(name)                                                           \
  DPB_INTERPOSED int name(int folder, const char* path, int flags, ...) {          \
    va_list arguments;                                                             \
    va_start(arguments, flags);                                                    \
    const mode_t mode = ModeOf(flags, arguments);                                  \
    va_end(arguments);                                                             \
    if (CanFail(flags) && Strikes(FaultyCall::kOpen, path, folder)) return Fail(); \
    static const auto next = Next<int (*)(int, const char*, int, mode_t)>(#name);  \
    return next(folder, path, flags, mode);                                        \
  }
DPB_OPENAT(openat)
DPB_OPENAT(openat64)

DPB_INTERPOSED ssize_t write(int descriptor, const void* bytes, size_t size) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t)>("write");
  const Share share = ShareOfWrite(descriptor);
  return share == Share::kNone ? Fail() : next(descriptor, bytes, Part(share, size));
}

#define DPB_PWRITE(name)                                                                    \
  DPB_INTERPOSED ssize_t name(int descriptor, const void* bytes, size_t size, off_t at) {   \
    static const auto next = Next<ssize_t (*)(int, const void*, size_t, off_t)>(#name);     \
    const Share share = ShareOfWrite(descriptor);                                           \
    return share == Share::kNone ? Fail() : next(descriptor, bytes, Part(share, size), at); \
  }
DPB_PWRITE(pwrite)
DPB_PWRITE(pwrite64)

DPB_INTERPOSED ssize_t writev(int descriptor, const iovec* parts, int n_parts) {
  static const auto next = Next<ssize_t (*)(int, const iovec*, int)>("writev");
  const Share share = ShareOfWrite(descriptor);
  return share == Share::kNone ? Fail()
                               : next(descriptor, parts, share == Share::kHalf ? 1 : n_parts);
}

#define DPB_OF_DESCRIPTOR(name)                                                 \
  DPB_INTERPOSED int name(int descriptor) {                                     \
    static const auto next = Next<int (*)(int)>(#name);                         \
    return Strikes(FaultyCall::kFsync, descriptor) ? Fail() : next(descriptor); \
  }
DPB_OF_DESCRIPTOR(fsync)
DPB_OF_DESCRIPTOR(fdatasync)

DPB_INTERPOSED int syncfs(int descriptor) noexcept {
  static const auto next = Next<int (*)(int)>("syncfs");
  return Strikes(FaultyCall::kFsync, descriptor) ? Fail() : next(descriptor);
}

DPB_INTERPOSED int rename(const char* from, const char* to) noexcept {
  static const auto next = Next<int (*)(const char*, const char*)>("rename");
  return Strikes(FaultyCall::kRename, to) ? Fail() : next(from, to);
}

DPB_INTERPOSED int renameat(int from_folder, const char* from, int to_folder,
                            const char* to) noexcept {
  static const auto next = Next<int (*)(int, const char*, int, const char*)>("renameat");
  return Strikes(FaultyCall::kRename, to, to_folder) ? Fail()
                                                     : next(from_folder, from, to_folder, to);
}

DPB_INTERPOSED int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = Next<int (*)(const char*, mode_t)>("mkdir");
  return Strikes(FaultyCall::kMkdir, path) ? Fail() : next(path, mode);
}

DPB_INTERPOSED int unlink(const char* path) noexcept {
  static const auto next = Next<int (*)(const char*)>("unlink");
  return Strikes(FaultyCall::kRemove, path) ? Fail() : next(path);
}

DPB_INTERPOSED int remove(const char* path) noexcept {
  static const auto next = Next<int (*)(const char*)>("remove");
  return Strikes(FaultyCall::kRemove, path) ? Fail() : next(path);
}

DPB_INTERPOSED int rmdir(const char* path) noexcept {
  static const auto next = Next<int (*)(const char*)>("rmdir");
  return Strikes(FaultyCall::kRemove, path) ? Fail() : next(path);
}

DPB_INTERPOSED int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto next = Next<int (*)(int, const char*, int)>("unlinkat");
  return Strikes(FaultyCall::kRemove, path, folder) ? Fail() : next(folder, path, flags);
}

#define DPB_TRUNCATE(name)                                                               \
  DPB_INTERPOSED int name(int descriptor, off_t size) noexcept {                         \
    static const auto next = Next<int (*)(int, off_t)>(#name);                           \
    return Strikes(FaultyCall::kTruncate, descriptor) ? Fail() : next(descriptor, size); \
  }
DPB_TRUNCATE(ftruncate)
DPB_TRUNCATE(ftruncate64)
