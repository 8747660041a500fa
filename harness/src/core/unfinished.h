// Files and folders that are being written, so that a signal that ends the program can remove them.
#pragma once

#include <filesystem>

namespace dp_bench {

/// While it lives, `path` counts as unfinished: declare it before what creates the path.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path path);
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

 private:
  std::filesystem::path path_;
};

/// Removes what is unfinished. For a program about to end: from here on every thread that begins or
/// ends such a path waits for ever, so that none is created behind it and no fault of the removal
/// is reported.
void RemoveUnfinishedAndHold();

}  // namespace dp_bench
