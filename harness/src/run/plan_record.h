// What a policy was asked and what it answered, plan by plan: to find out where two ways to ask the
// same policy part. A folder with
//   plan_000012.safetensors  obs.<key> [n, To, storage shape], action [n, Ta, Da] of one plan
//   plans.jsonl              a line for each row: file, row, seed, step, and fault if it has one
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/chunk_planner.h"
#include "core/json_log.h"
#include "dp_bench/array.h"

namespace dp_bench::run {

/// A row of a plan. `fault`: why it has no actions (they are NaN).
struct RecordedPlan {
  std::string file;
  std::int64_t row = 0;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::string fault;
};

/// Used by one thread at a time.
class PlanRecordWriter {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

  /// Continues the record in `folder`, or begins one. Throws Error{kIo}, and Error{kData} for a
  /// record that cannot be read.
  explicit PlanRecordWriter(std::filesystem::path folder, std::uint64_t max_bytes = kMaxBytes);

  /// The rows of `obs` and `actions` [M, Ta, Da] after the first n are padding, for n = rows.size()
  /// = faults.size(). Once the record has `max_bytes` or cannot be written, it warns and keeps
  /// nothing more: a full disk must not end what is recorded.
  void Add(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
           std::span<const std::string> faults, std::span<const float> actions,
           const Shape& chunk_shape);

 private:
  std::filesystem::path folder_;
  std::uint64_t max_bytes_;
  std::uint64_t n_bytes_ = 0;
  std::size_t n_files_ = 0;
  bool is_ended_ = false;
  std::optional<core::JsonLog> index_;
};

class PlanRecord {
 public:
  /// Throws Error{kData} naming the line that is not one of a record; Error{kIo}.
  explicit PlanRecord(std::filesystem::path folder);

  static bool IsIn(const std::filesystem::path& folder);

  /// Whether a record has files of this name.
  static bool Has(std::string_view name);

  const std::filesystem::path& folder() const { return folder_; }

  /// In the order in which they were planned.
  const std::vector<RecordedPlan>& plans() const { return plans_; }

  /// obs.<key> [To, ...] and action [Ta, Da] of one plan. Throws Error{kData} if its file does not
  /// have it.
  ArrayMap Read(const RecordedPlan& plan);

 private:
  std::filesystem::path folder_;
  std::vector<RecordedPlan> plans_;
  std::string open_file_;  // the file of `open_`
  ArrayMap open_;
};

}  // namespace dp_bench::run
