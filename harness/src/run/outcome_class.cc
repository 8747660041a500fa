#include "run/outcome_class.h"

#include <nlohmann/json.hpp>

#include "core/json.h"

namespace dp_bench::run {

std::string OutcomeClass(const OutcomeConditions& conditions) {
  const std::string observed = conditions.has_pictures ? "pictures, " : "no pictures, ";
  if (conditions.device != "cpu") return observed + conditions.device + ", " + conditions.cpu;
  const bool is_portable = conditions.has_avx2_and_fma && !conditions.has_pictures;
  return observed + (is_portable ? "x86-64 with AVX2 and FMA" : conditions.cpu);
}

std::string OutcomeClassOf(const std::string& manifest) {
  const auto json = core::TryParseJson(manifest);
  const bool is_named = json.contains(kOutcomeClassKey) && json[kOutcomeClassKey].is_string();
  return is_named ? json[kOutcomeClassKey].get<std::string>() : std::string();
}

}  // namespace dp_bench::run
