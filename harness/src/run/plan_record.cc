#include "run/plan_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/copy_bytes.h"
#include "core/errors.h"
#include "core/json.h"
#include "run/safetensors.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanIndex = "plans.jsonl";
constexpr const char* kActionTensor = "action";
constexpr std::size_t kMaxIndexBytes = std::size_t{256} << 20;

std::string PlanFile(std::size_t number) { return fmt::format("plan_{:06}.safetensors", number); }

std::vector<RecordedPlan> ParsePlanIndex(std::string_view text, const std::string& origin) {
  std::vector<RecordedPlan> plans;
  for (std::size_t n_line = 1; !text.empty(); ++n_line) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    const std::string place = fmt::format("{}:{}", origin, n_line);
    const nlohmann::json json = core::ParseJson(line, place);
    const core::JsonView view(json, place);
    RecordedPlan& plan = plans.emplace_back();
    plan.file = view.Get<std::string>("file");
    plan.row = view.Get<std::int64_t>("row");
    plan.seed = view.Get<std::uint64_t>("seed");
    plan.step = view.Get<std::uint64_t>("step");
    if (view.Has("fault")) plan.fault = view.Get<std::string>("fault");
    if (fs::path(plan.file).filename() != plan.file || plan.row < 0) {
      throw DataError("{}: expected the name of a file in this folder and the number of a row",
                      place);
    }
  }
  return plans;
}

// Its first `n_rows` rows.
Array FrontOf(const Array& array, std::size_t n_rows) {
  Shape shape = array.shape();
  shape.front() = static_cast<std::int64_t>(n_rows);
  Array front(array.dtype(), std::move(shape));
  core::CopyBytes(array.bytes().first(front.byte_size()), front.bytes());
  return front;
}

}  // namespace

PlanRecordWriter::PlanRecordWriter(fs::path folder, std::uint64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  core::CreateFolders(folder_);
  const fs::path index = folder_ / kPlanIndex;
  const std::string found = core::ReadWholeLines(index, kMaxIndexBytes);
  const std::vector<RecordedPlan> before = ParsePlanIndex(found, index.string());
  for (const RecordedPlan& plan : before) {
    if (plan.row > 0) continue;
    ++n_files_;
    n_bytes_ += fs::exists(folder_ / plan.file) ? fs::file_size(folder_ / plan.file) : 0;
  }
  index_.emplace(index, std::ssize(found));
}

void PlanRecordWriter::Add(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
                           std::span<const std::string> faults, std::span<const float> actions,
                           const Shape& chunk_shape) {
  if (is_ended_) return;
  ArrayMap arrays;
  for (const auto& [key, batch] : obs) arrays.emplace("obs." + key, FrontOf(batch, rows.size()));
  Array chunks(DType::kFloat32,
               {static_cast<std::int64_t>(rows.size()), chunk_shape.at(0), chunk_shape.at(1)});
  std::ranges::copy(actions.first(static_cast<std::size_t>(chunks.size())),
                    chunks.as<float>().begin());
  arrays.emplace(kActionTensor, std::move(chunks));
  for (const auto& [name, array] : arrays) n_bytes_ += array.byte_size();
  is_ended_ = n_bytes_ > max_bytes_;
  if (is_ended_) {
    core::LogWarning("the record of plans in {} has its full size of {} MiB; no more is kept",
                     folder_.string(), max_bytes_ >> 20);
    return;
  }
  const std::string file = PlanFile(n_files_++);
  try {
    WriteSafetensors(folder_ / file, arrays);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      nlohmann::json line = {
          {"file", file}, {"row", row}, {"seed", rows[row].seed}, {"step", rows[row].env_step}};
      if (!faults[row].empty()) line["fault"] = faults[row];
      index_->Append(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
  } catch (const Error& error) {
    is_ended_ = true;
    core::LogWarning("the record of plans ends here: {}", error.what());
  }
}

PlanRecord::PlanRecord(fs::path folder) : folder_(std::move(folder)) {
  const fs::path index = folder_ / kPlanIndex;
  plans_ = ParsePlanIndex(core::ReadWholeLines(index, kMaxIndexBytes), index.string());
}

bool PlanRecord::IsIn(const fs::path& folder) { return fs::exists(folder / kPlanIndex); }

bool PlanRecord::Has(std::string_view name) {
  return name == kPlanIndex || (name.starts_with("plan_") && name.ends_with(".safetensors"));
}

ArrayMap PlanRecord::Read(const RecordedPlan& plan) {
  if (plan.file != open_file_) {
    open_ = ReadSafetensors(folder_ / plan.file, 2 * PlanRecordWriter::kMaxBytes).tensors;
    open_file_ = plan.file;
  }
  ArrayMap arrays;
  for (const auto& [name, batch] : open_) {
    if (batch.shape().empty() || plan.row >= batch.shape().front()) {
      throw DataError("'{}': '{}' has no row {}", (folder_ / plan.file).string(), name, plan.row);
    }
    Shape shape(batch.shape().begin() + 1, batch.shape().end());
    Array row(batch.dtype(), std::move(shape));
    core::CopyBytes(batch.bytes().subspan(static_cast<std::size_t>(plan.row) * row.byte_size(),
                                          row.byte_size()),
                    row.bytes());
    arrays.emplace(name, std::move(row));
  }
  return arrays;
}

}  // namespace dp_bench::run
