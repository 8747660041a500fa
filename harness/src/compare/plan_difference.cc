#include "compare/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compare/trace_difference.h"
#include "core/errors.h"
#include "core/visit_dtype.h"

namespace dp_bench::compare {
namespace {

constexpr const char* kActions = "action";

using Pairs = std::vector<std::pair<const run::RecordedPlan*, const run::RecordedPlan*>>;

// Several plans of one seed and step are told apart by their order.
Pairs PairBySeedAndStep(const run::PlanRecord& a, const run::PlanRecord& b) {
  using Place = std::tuple<std::uint64_t, std::uint64_t, int>;
  const auto place_of = [](std::map<std::pair<std::uint64_t, std::uint64_t>, int>& n_seen,
                           const run::RecordedPlan& plan) {
    return Place{plan.seed, plan.step, n_seen[{plan.seed, plan.step}]++};
  };
  std::map<Place, const run::RecordedPlan*> in_b;
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> n_seen;
  for (const run::RecordedPlan& plan : b.plans()) in_b[place_of(n_seen, plan)] = &plan;
  n_seen.clear();
  Pairs pairs;
  for (const run::RecordedPlan& plan : a.plans()) {
    const auto found = in_b.find(place_of(n_seen, plan));
    if (found != in_b.end()) pairs.emplace_back(&plan, found->second);
  }
  return pairs;
}

Pairs PairInOrder(const run::PlanRecord& a, const run::PlanRecord& b) {
  Pairs pairs;
  for (std::size_t i = 0; i < std::min(a.plans().size(), b.plans().size()); ++i) {
    pairs.emplace_back(&a.plans()[i], &b.plans()[i]);
  }
  return pairs;
}

double NumberAt(const Array& array, std::size_t index) {
  return core::VisitDType(array.dtype(), [&](auto value) {
    std::memcpy(&value, array.bytes().data() + index * sizeof value, sizeof value);
    return static_cast<double>(value);
  });
}

// "[1, 40, 17, 0]"
std::string PlaceOf(std::size_t index, const Shape& shape) {
  Shape place(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto n = static_cast<std::size_t>(shape[i]);
    place[i] = static_cast<std::int64_t>(index % n);
    index /= n;
  }
  return ToString(place);
}

bool AreEqual(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

std::string TypeAndShape(const Array& array) {
  return fmt::format("{} {}", Name(array.dtype()), ToString(array.shape()));
}

PlanDifference DescribeArrays(const run::RecordedPlan& plan, const std::string& name,
                              const Array& a, const Array& b) {
  PlanDifference found{.seed = plan.seed, .step = plan.step, .field = name};
  if (name != kActions) found.explanation = ExplainArrays(a, b);
  found.n_elements = static_cast<std::size_t>(a.size());
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
    found.a = TypeAndShape(a);
    found.b = TypeAndShape(b);
    found.n_different = found.n_elements;
    return found;
  }
  const std::size_t size = SizeOf(a.dtype());
  for (std::size_t i = 0; i < found.n_elements; ++i) {
    if (std::memcmp(&a.bytes()[i * size], &b.bytes()[i * size], size) == 0) continue;
    if (found.n_different++ == 0) {
      found.field = name + PlaceOf(i, a.shape());
      found.a = ElementText(a.dtype(), a.bytes(), i);
      found.b = ElementText(b.dtype(), b.bytes(), i);
    }
    found.largest = std::max(found.largest, std::abs(NumberAt(a, i) - NumberAt(b, i)));
  }
  return found;
}

// `a` with its elements in other places: `from` gives for each index of the result that in `a`.
bool IsRearranged(const Array& a, const Array& b,
                  const std::function<std::size_t(std::size_t)>& from) {
  const std::size_t size = SizeOf(a.dtype());
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.size()); ++i) {
    if (std::memcmp(&a.bytes()[from(i) * size], &b.bytes()[i * size], size) != 0) return false;
  }
  return true;
}

// Both are images [To, H, W, C].
std::string ExplainPixels(const Array& a, const Array& b) {
  const auto n_rows = static_cast<std::size_t>(a.shape()[1]);
  const auto n_columns = static_cast<std::size_t>(a.shape()[2]);
  const auto n_channels = static_cast<std::size_t>(a.shape()[3]);
  const auto moved = [&](bool flips_rows, bool flips_columns, bool flips_channels) {
    return IsRearranged(a, b, [=](std::size_t i) {
      const std::size_t channel = i % n_channels;
      const std::size_t column = i / n_channels % n_columns;
      const std::size_t row = i / n_channels / n_columns % n_rows;
      const std::size_t image = i / n_channels / n_columns / n_rows;
      return ((image * n_rows + (flips_rows ? n_rows - 1 - row : row)) * n_columns +
              (flips_columns ? n_columns - 1 - column : column)) *
                 n_channels +
             (flips_channels ? n_channels - 1 - channel : channel);
    });
  };
  if (moved(false, false, true)) return "the channels are in the opposite order (RGB and BGR)";
  if (moved(true, false, false)) return "B is A upside down";
  if (moved(false, true, false)) return "B is A mirrored";
  if (moved(true, true, false)) return "B is A rotated by 180 degrees";
  return "";
}

// The same numbers, times another.
std::string ExplainScale(const Array& a, const Array& b) {
  constexpr double kTolerance = 1e-5;
  double factor = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.size()); ++i) {
    const double in_a = NumberAt(a, i);
    const double in_b = NumberAt(b, i);
    if (factor == 0.0 && in_a != 0.0) factor = in_b / in_a;
    const double wanted = factor * in_a;
    if (!(std::abs(in_b - wanted) <= kTolerance * std::abs(wanted))) return "";
  }
  if (factor == 0.0 || std::abs(factor - 1.0) < kTolerance) return "";
  return fmt::format("B is {:.6g} times A", factor);
}

std::span<const std::byte> StepOf(const Array& window, std::int64_t step) {
  const std::size_t n = window.byte_size() / static_cast<std::size_t>(window.shape()[0]);
  return window.bytes().subspan(static_cast<std::size_t>(step) * n, n);
}

// Both are windows [To, ...] of more than one step.
std::string ExplainHistory(const Array& a, const Array& b) {
  const std::int64_t n = a.shape()[0];
  const auto same = [&](std::int64_t in_a, std::int64_t in_b) {
    return std::ranges::equal(StepOf(a, in_a), StepOf(b, in_b));
  };
  const auto all = [n](const std::function<bool(std::int64_t)>& is_true) {
    for (std::int64_t step = 0; step < n; ++step) {
      if (!is_true(step)) return false;
    }
    return true;
  };
  if (all([&](std::int64_t step) { return same(n - 1, step); })) {
    return "each step of B is the latest one of A: B has no history";
  }
  if (all([&](std::int64_t step) { return same(step, n - 1); })) {
    return "each step of A is the latest one of B: A has no history";
  }
  if (all([&](std::int64_t step) { return same(n - 1 - step, step); })) {
    return "B has the steps in the opposite order";
  }
  if (same(n - 1, n - 1)) return "the latest step is equal, so only the history differs";
  // windows that repeat a step, as at the beginning of an episode, do not tell
  const auto moves = [n](const Array& window) {
    return !std::ranges::equal(StepOf(window, n - 2), StepOf(window, n - 1));
  };
  if (same(n - 2, n - 1) && moves(b)) return "B is one step behind A";
  if (same(n - 1, n - 2) && moves(a)) return "A is one step behind B";
  return "";
}

}  // namespace

std::string ExplainArrays(const Array& a, const Array& b) {
  if (a.shape() != b.shape()) {
    return NumElements(a.shape()) == NumElements(b.shape())
               ? "the same number of elements in another layout"
               : "another size: resized, cropped, or another number of steps";
  }
  if (a.shape().size() >= 2 && a.shape()[0] > 1 && a.dtype() == b.dtype()) {
    if (std::string text = ExplainHistory(a, b); !text.empty()) return text;
  }
  if (a.shape().size() == 4 && a.dtype() == b.dtype()) {
    if (std::string text = ExplainPixels(a, b); !text.empty()) return text;
  }
  return ExplainScale(a, b);
}

PlanComparison ComparePlans(run::PlanRecord& a, run::PlanRecord& b) {
  for (const run::PlanRecord* record : {&a, &b}) {
    if (record->plans().empty()) throw DataError("'{}' has no plans", record->folder().string());
  }
  PlanComparison result;
  Pairs pairs = PairBySeedAndStep(a, b);
  if (pairs.empty()) {
    result.is_in_order = true;
    pairs = PairInOrder(a, b);
  }
  result.n_pairs = pairs.size();
  for (const auto& [plan_a, plan_b] : pairs) {
    const ArrayMap in_a = a.Read(*plan_a);
    const ArrayMap in_b = b.Read(*plan_b);
    std::vector<std::string> names;
    for (const auto& [name, array] : in_a) names.push_back(name);
    std::stable_partition(names.begin(), names.end(),
                          [](const auto& name) { return name != kActions; });
    for (const std::string& name : names) {
      const auto other = in_b.find(name);
      if (other == in_b.end()) {
        throw DataError("'{}' has '{}', but '{}' has not", a.folder().string(), name,
                        b.folder().string());
      }
      if (AreEqual(in_a.find(name)->second, other->second)) continue;
      result.first = DescribeArrays(*plan_a, name, in_a.find(name)->second, other->second);
      for (const run::RecordedPlan* plan : {plan_a, plan_b}) {
        if (name == kActions && !plan->fault.empty()) result.first->explanation = plan->fault;
      }
      return result;
    }
    ++result.n_equal;
  }
  return result;
}

}  // namespace dp_bench::compare
