#include "compare/trace_difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/errors.h"
#include "core/visit_dtype.h"

namespace dp_bench::compare {
namespace {

constexpr const char* kObsStep = "obs_step";

std::int64_t Rows(const ArrayMap& trace, std::string_view field) {
  return trace.find(field)->second.shape().at(0);
}

std::size_t RowBytes(const Array& array) {
  return array.shape()[0] == 0 ? 0 : array.byte_size() / static_cast<std::size_t>(array.shape()[0]);
}

std::span<const std::byte> RowOf(const Array& array, std::int64_t row) {
  const std::size_t n_bytes = RowBytes(array);
  return array.bytes().subspan(static_cast<std::size_t>(row) * n_bytes, n_bytes);
}

/// The whole text of a digest, or the first number that differs.
TraceDifference Describe(std::int64_t step, const std::string& field, const Array& array,
                         std::span<const std::byte> a, std::span<const std::byte> b) {
  if (field.starts_with("obs_sha256.")) {
    const auto text = [](std::span<const std::byte> row) {
      return std::string(reinterpret_cast<const char*>(row.data()), row.size());
    };
    return {step, field, text(a), text(b)};
  }
  const std::size_t element = SizeOf(array.dtype());
  const auto byte = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const std::size_t index = byte / element;
  const bool is_scalar = a.size() == element;
  return {step, is_scalar ? field : fmt::format("{}[{}]", field, index),
          ElementText(array.dtype(), a, index), ElementText(array.dtype(), b, index)};
}

std::vector<std::string> FieldsOf(const ArrayMap& trace, bool of_observations) {
  std::vector<std::string> fields;
  for (const auto& [field, array] : trace) {
    if (field.starts_with("obs") == of_observations && field != kObsStep) fields.push_back(field);
  }
  return fields;
}

void RequireSameFields(const ArrayMap& a, const ArrayMap& b) {
  const auto keys = [](const ArrayMap& trace) {
    std::vector<std::string> names;
    for (const auto& [field, array] : trace) {
      const Shape row(array.shape().begin() + 1, array.shape().end());
      names.push_back(fmt::format("{} {} {}", field, Name(array.dtype()), ToString(row)));
    }
    return names;
  };
  if (keys(a) == keys(b)) return;
  throw DataError(
      "the two traces have different fields, so they cannot be compared: one has [{}], the other "
      "[{}]",
      fmt::join(keys(a), ", "), fmt::join(keys(b), ", "));
}

/// The first of `fields` whose row differs.
std::optional<TraceDifference> CompareRows(const ArrayMap& a, const ArrayMap& b,
                                           const std::vector<std::string>& fields, std::int64_t row,
                                           std::int64_t step) {
  for (const std::string& field : fields) {
    const Array& array = a.find(field)->second;
    const auto in_a = RowOf(array, row);
    const auto in_b = RowOf(b.find(field)->second, row);
    if (!std::ranges::equal(in_a, in_b)) return Describe(step, field, array, in_a, in_b);
  }
  return std::nullopt;
}

/// Whether the observation number `row` was made at this step.
bool IsObserved(const ArrayMap& trace, std::int64_t row, std::int64_t step) {
  const auto steps = trace.find(kObsStep)->second.as<std::int64_t>();
  return row < std::ssize(steps) && steps[static_cast<std::size_t>(row)] == step;
}

}  // namespace

std::string ElementText(DType dtype, std::span<const std::byte> bytes, std::size_t index) {
  return core::VisitDType(dtype, [&](auto value) {
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return fmt::format("{}", value);
  });
}

std::optional<TraceDifference> FindFirstDifference(const ArrayMap& a, const ArrayMap& b) {
  RequireSameFields(a, b);
  const std::vector<std::string> of_obs = FieldsOf(a, /*of_observations=*/true);
  std::vector<std::string> of_step = FieldsOf(a, /*of_observations=*/false);
  // the values that an env reports follow from the action
  std::stable_partition(of_step.begin(), of_step.end(),
                        [](const auto& field) { return field == "action"; });
  const std::int64_t in_a = Rows(a, "action");
  const std::int64_t in_b = Rows(b, "action");
  const std::int64_t n_steps = std::min(in_a, in_b);
  std::int64_t n_observed = 0;
  for (std::int64_t step = 0; step <= n_steps; ++step) {
    // an observation in only one trace belongs to a longer episode
    if (IsObserved(a, n_observed, step) && IsObserved(b, n_observed, step)) {
      if (auto found = CompareRows(a, b, of_obs, n_observed++, step)) return found;
    }
    if (step == n_steps) break;
    if (auto found = CompareRows(a, b, of_step, step, step)) return found;
  }
  if (in_a == in_b) return std::nullopt;
  return TraceDifference{n_steps, "end", fmt::format("{} steps", in_a),
                         fmt::format("{} steps", in_b)};
}

}  // namespace dp_bench::compare
