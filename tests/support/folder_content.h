// Compares the content of two folders file by file.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "core/atomic_file.h"

namespace dp_bench {

/// The names of a folder's entries.
inline std::set<std::string> NamesIn(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

/// Relative path -> content.
using FolderContent = std::map<std::string, std::string>;

/// Every file below a folder, except TensorBoard's event files, which contain the time.
inline FolderContent FilesBelow(const std::filesystem::path& folder) {
  FolderContent files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) continue;
    files[std::filesystem::relative(entry.path(), folder).string()] =
        core::ReadTextFile(entry.path(), 1U << 24);
  }
  return files;
}

/// The files that differ or exist on one side only, separated by blanks; empty if all are equal.
inline std::string DifferingFiles(const FolderContent& left, const FolderContent& right) {
  std::string names;
  for (const auto& [name, content] : left) {
    const auto found = right.find(name);
    if (found == right.end() || found->second != content) names += name + " ";
  }
  for (const auto& [name, content] : right) {
    if (!left.contains(name)) names += name + " ";
  }
  return names;
}

inline std::string DifferingFiles(const std::filesystem::path& a, const std::filesystem::path& b) {
  return DifferingFiles(FilesBelow(a), FilesBelow(b));
}

}  // namespace dp_bench
