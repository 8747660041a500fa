// A file of tensors.
#include "checkpoint/safetensors.h"
#include "fuzz.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] { ParseSafetensors(input.bytes(), "model.safetensors"); });
}
