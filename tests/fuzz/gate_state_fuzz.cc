// What a gate that stopped without a verdict left.
#include "compare/gate_report.h"
#include "fuzz.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] { ParseStoppedGate(input.text(), "gate.json"); });
}
