// libhdf5 crashes on some damaged files, and on files that were made for it. So a file is opened in
// a child process first: that one crashes in place of the program.
#pragma once

#include <filesystem>
#include <functional>

namespace dp_bench::hdf5 {

/// Runs `work`, which reads the files at `path`, in a child process. Throws Error{kData} if the
/// child crashes or does not end, and the Error that `work` throws. Does nothing if no process can
/// be started.
void TryInChild(const std::filesystem::path& path, const std::function<void()>& work);

}  // namespace dp_bench::hdf5
