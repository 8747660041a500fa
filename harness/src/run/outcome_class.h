// The machines on which an evaluation gives the same outcomes, bit for bit (ADR 0004), as a name in
// its manifest.
#pragma once

#include <string>

namespace dp_bench::run {

inline constexpr const char* kOutcomeClassKey = "outcome_class";

struct OutcomeConditions {
  std::string device;  // of the policy: "cpu", "cuda:0", or a backend: "openvino"
  std::string cpu;     // model
  bool has_avx2_and_fma = false;
  bool has_pictures = false;  // the policy observes some
};

/// "no pictures, x86-64 with AVX2 and FMA", "pictures, AMD EPYC", "no pictures, cuda:0, AMD EPYC".
/// It holds for policies built on dp_bench_policy; others may use operators of LibTorch that round
/// differently from processor to processor.
std::string OutcomeClass(const OutcomeConditions& conditions);

/// The class in a manifest's text; empty if it has none.
std::string OutcomeClassOf(const std::string& manifest);

}  // namespace dp_bench::run
