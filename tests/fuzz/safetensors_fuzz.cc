// A file of tensors.
#include "fuzz.h"
#include "run/safetensors.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] { run::ParseSafetensors(input.bytes(), "model.safetensors"); });
}
