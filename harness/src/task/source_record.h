// From which files an unfinished copy of datasets was made, so that it is not continued from
// others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "task/dataset_conversion.h"

namespace dp_bench::task {

/// A file beside the output, for writers of any format, while the copy is unfinished. A writer gets
/// only a text that names the sources, which the finished dataset may keep.
class SourceRecord {
 public:
  /// `outputs` are what the command writes; they grow, so they do not count as files of a source
  /// that they are in.
  SourceRecord(const DatasetConversion& request, std::span<const std::filesystem::path> outputs);

  /// Throws Error{kUsage} if the episodes that the output has may be of other sources.
  void Begin(std::int64_t n_episodes) const;

  /// After the dataset is complete, or if nothing of it is left.
  void Remove() const;

  bool IsNeeded() const;

 private:
  [[noreturn]] void Refuse(std::int64_t n_episodes, const nlohmann::json& found,
                           const nlohmann::json& wanted) const;

  std::filesystem::path output_;
  std::filesystem::path file_;
  nlohmann::json record_;
};

}  // namespace dp_bench::task
