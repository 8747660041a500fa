// Makes one system call of this process fail: the n-th open, write, fsync, ... of a file below a
// folder. The test program defines these functions itself. Its definitions take precedence over the
// C library's for all our shared libraries and for libav. Link dpb_fault_injection.
#pragma once

#include <filesystem>
#include <string_view>

namespace dp_bench {

enum class FaultyCall { kOpen, kWrite, kFsync, kRename, kMkdir, kRemove, kTruncate };

inline constexpr FaultyCall kFaultyCalls[] = {
    FaultyCall::kOpen,  FaultyCall::kWrite,  FaultyCall::kFsync,   FaultyCall::kRename,
    FaultyCall::kMkdir, FaultyCall::kRemove, FaultyCall::kTruncate};

std::string_view NameOf(FaultyCall call);

/// Special values instead of an errno, for writes: half of the bytes are written; and the same with
/// a disk that is full afterwards (ENOSPC for the next write).
inline constexpr int kShortWrite = -1;
inline constexpr int kShortWriteThenFull = -2;

/// While it exists, the `place`-th call of this kind (from 1) below `folder` fails with `error`.
/// Only one may exist at a time.
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
