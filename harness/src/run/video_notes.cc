#include "run/video_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/errors.h"
#include "dp_bench/array.h"
#include "run/run_files.h"
#include "run/safetensors.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxNotesBytes = std::uint64_t{256} << 20;
constexpr std::int64_t kMaxDims = 1'000'000;  // of an empty array too

// Calls array(name, shape, &values) for each array of the file.
template <class Notes, class Visit>
void VisitArrays(Notes* notes, std::int64_t n_plans, std::int64_t n_steps, const Visit& array) {
  array("reward", Shape{n_steps}, &notes->reward);
  array("success", Shape{n_steps}, &notes->success);
  array("plan_step", Shape{n_plans}, &notes->plan_step);
  array("plan", Shape{n_plans, notes->n_action_steps, notes->action_dim}, &notes->plan);
  if (notes->n_marks == 0) return;
  array("plan_marks", Shape{n_plans, notes->n_action_steps, notes->n_marks, 2}, &notes->plan_marks);
  array("state_marks", Shape{n_steps + 1, notes->n_marks, 2}, &notes->state_marks);
}

// The arrays of one file. Take checks dtype and shape.
class NotesReader {
 public:
  NotesReader(fs::path path, Safetensors file) : path_(std::move(path)), file_(std::move(file)) {}

  bool Has(std::string_view name) const { return file_.tensors.contains(name); }

  /// The shape of an array of this rank.
  const Shape& ShapeOf(const char* name, std::size_t rank) const {
    const Shape& shape = Find(name).shape();
    if (shape.size() != rank) {
      Fail(name, fmt::format("has shape {}; expected {} dimensions", ToString(shape), rank));
    }
    if (std::ranges::any_of(shape, [](std::int64_t size) { return size > kMaxDims; })) {
      Fail(name, fmt::format("has shape {}; expected at most {} in each dimension", ToString(shape),
                             kMaxDims));
    }
    return shape;
  }

  template <class T>
  std::vector<T> Take(const char* name, const Shape& shape) const {
    const Array& array = Find(name);
    if (array.dtype() != DTypeOf<T>::value || array.shape() != shape) {
      Fail(name, fmt::format("is {} {}; expected {} {}", Name(array.dtype()),
                             ToString(array.shape()), Name(DTypeOf<T>::value), ToString(shape)));
    }
    const std::span<const T> values = array.as<T>();
    return {values.begin(), values.end()};
  }

  [[noreturn]] void Fail(std::string_view name, std::string_view what) const {
    throw DataError("'{}' is not a file of video notes: '{}' {}", path_.string(), name, what);
  }

 private:
  const Array& Find(const char* name) const {
    const auto found = file_.tensors.find(name);
    if (found == file_.tensors.end()) Fail(name, "is missing");
    return found->second;
  }

  fs::path path_;
  Safetensors file_;
};

void RequirePlanSteps(const NotesReader& reader, const VideoNotes& notes) {
  const auto n_steps = static_cast<std::int64_t>(notes.reward.size());
  std::int64_t least = 0;
  for (const std::int64_t step : notes.plan_step) {
    if (step < least || step > n_steps) {
      reader.Fail("plan_step",
                  fmt::format("has {}; expected ascending steps from 0 to {}", step, n_steps));
    }
    least = step + 1;
  }
}

// NaN: not visible in the frame.
void RequireMarks(const NotesReader& reader, const char* name, const std::vector<float>& marks) {
  const auto is_bad = [](float x) { return !std::isnan(x) && !(x >= 0.0F && x <= 1.0F); };
  const auto bad = std::ranges::find_if(marks, is_bad);
  if (bad != marks.end()) reader.Fail(name, fmt::format("has {}; expected 0 to 1 or NaN", *bad));
}

template <class T>
void RequireFinite(const NotesReader& reader, const char* name, const std::vector<T>& values) {
  const auto bad = std::ranges::find_if(values, [](T x) { return !std::isfinite(x); });
  if (bad != values.end()) reader.Fail(name, fmt::format("has {}; expected finite numbers", *bad));
}

VideoNotes NotesFrom(const NotesReader& reader) {
  const std::int64_t n_steps = reader.ShapeOf("reward", 1)[0];
  const Shape& plan_shape = reader.ShapeOf("plan", 3);
  const std::int64_t n_plans = plan_shape[0];
  VideoNotes notes{.n_action_steps = plan_shape[1], .action_dim = plan_shape[2]};
  if (reader.Has("plan_marks") || reader.Has("state_marks")) {
    notes.n_marks = reader.ShapeOf("state_marks", 3)[1];
    if (notes.n_marks == 0) reader.Fail("state_marks", "has no marks; expected at least one");
  }
  VisitArrays(&notes, n_plans, n_steps,
              [&]<class T>(const char* name, const Shape& shape, std::vector<T>* values) {
                *values = reader.Take<T>(name, shape);
              });
  RequireFinite(reader, "reward", notes.reward);
  RequireFinite(reader, "plan", notes.plan);
  RequirePlanSteps(reader, notes);
  if (std::ranges::any_of(notes.success, [](std::uint8_t flag) { return flag > 1; })) {
    reader.Fail("success", "has other numbers than 0 and 1");
  }
  RequireMarks(reader, "plan_marks", notes.plan_marks);
  RequireMarks(reader, "state_marks", notes.state_marks);
  return notes;
}

}  // namespace

fs::path VideoNotesFile(const std::string& split, std::uint64_t seed) {
  return fs::path(kMediaFolder) / fmt::format("{}_{}.safetensors", split, seed);
}

void WriteVideoNotes(const fs::path& path, const VideoNotes& notes) {
  const auto n_plans = static_cast<std::int64_t>(notes.plan_step.size());
  const auto n_steps = static_cast<std::int64_t>(notes.reward.size());
  ArrayMap arrays;
  VisitArrays(&notes, n_plans, n_steps,
              [&]<class T>(const char* name, const Shape& shape, const std::vector<T>* values) {
                Array array(DTypeOf<T>::value, shape);
                DPB_ASSERT(array.as<T>().size() == values->size());
                std::ranges::copy(*values, array.as<T>().begin());
                arrays.emplace(name, std::move(array));
              });
  WriteSafetensors(path, arrays);
}

VideoNotes ReadVideoNotes(const fs::path& path) {
  try {
    return NotesFrom({path, ReadSafetensors(path, kMaxNotesBytes)});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCheckpoint) throw;
    throw Error(ErrorCode::kData, error.what());  // the file is no checkpoint
  }
}

}  // namespace dp_bench::run
