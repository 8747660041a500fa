// A baseline of the gate, compared with itself; the same bytes as a result of another program.
#include "compare/gate.h"
#include "compare/pairing.h"
#include "fuzz.h"
#include "run/foreign_result.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] {
    const run::RunFolder baseline = compare::ParseBaseline(input.text(), "baseline.json");
    compare::FindMismatches(baseline, baseline);
    compare::RunGate(baseline, baseline, compare::SequentialTestConfig{});
  });
  fuzz::Accepts([&] { run::ParseForeignResult(input.text(), "results"); });
}
