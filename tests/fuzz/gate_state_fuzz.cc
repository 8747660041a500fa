// The saved state of a gate that stopped without a verdict.
#include "compare/gate_report.h"
#include "fuzz.h"
#include "report/gate_output.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] { compare::ParseStoppedGate(input.text(), "gate.json"); });
}
