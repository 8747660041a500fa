// Finds where two records of plans part: the question that is not the same, or the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "dp_bench/array.h"
#include "run/plan_record.h"

namespace dp_bench::compare {

/// The first value that is not equal bit for bit.
struct PlanDifference {
  std::uint64_t seed = 0;  // in A
  std::uint64_t step = 0;
  std::string field;  // "obs.image[1, 40, 17, 0]": step of the window, then pixel and channel
  std::string a;
  std::string b;
  std::size_t n_elements = 0;  // of the array
  std::size_t n_different = 0;
  double largest = 0.0;     // absolute difference of two elements
  std::string explanation;  // what would explain all of them; "": nothing that is known
};

struct PlanComparison {
  std::size_t n_pairs = 0;
  std::size_t n_equal = 0;   // pairs before the first difference
  bool is_in_order = false;  // no seed and step is in both, so the plans are paired by their order
  std::optional<PlanDifference> first;
};

/// Pairs the plans by seed and step, and several of one seed and step by their order. Compares in
/// the order of `a`: first each observation, then the actions. Throws Error{kData} if one of them
/// has no plans, or what PlanRecord::Read throws.
PlanComparison ComparePlans(run::PlanRecord& a, run::PlanRecord& b);

/// What was done to `a` [To, ...] if it became `b`: "the channels are in the opposite order",
/// "mirrored", "255 times as large", "... an earlier step", ...; "" if it is none of these.
std::string ExplainArrays(const Array& a, const Array& b);

}  // namespace dp_bench::compare
