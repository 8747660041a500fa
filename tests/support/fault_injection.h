// Lets one system call of this process fail: the n-th open, write, fsync, ... of a file below a
// folder. The test program defines these functions itself, which come before those of the C library
// for every shared library of ours and for libav. Link dpb_fault_injection.
#pragma once

#include <filesystem>
#include <string_view>

namespace dp_bench {

enum class FaultyCall { kOpen, kWrite, kFsync, kRename, kMkdir, kRemove, kTruncate };

inline constexpr FaultyCall kFaultyCalls[] = {
    FaultyCall::kOpen,  FaultyCall::kWrite,  FaultyCall::kFsync,   FaultyCall::kRename,
    FaultyCall::kMkdir, FaultyCall::kRemove, FaultyCall::kTruncate};

std::string_view NameOf(FaultyCall call);

/// Instead of an errno, for writes: half of the bytes are taken; and the same with a disk that is
/// full from there on (ENOSPC for the next write).
inline constexpr int kShortWrite = -1;
inline constexpr int kShortWriteThenFull = -2;

/// While it lives, the `place`-th call of this kind (from 1) below `folder` fails with `error`.
/// One at a time.
class InjectedFault {
 public:
  InjectedFault(const std::filesystem::path& folder, FaultyCall call, int error, int place);
  InjectedFault(const InjectedFault&) = delete;
  InjectedFault& operator=(const InjectedFault&) = delete;
  ~InjectedFault();

  /// Whether that call was made.
  bool has_struck() const;
};

}  // namespace dp_bench
