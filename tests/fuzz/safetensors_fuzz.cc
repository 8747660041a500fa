// A file of tensors.
#include "fuzz.h"
#include "run/safetensors.h"
#include "scratch.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  static const fuzz::Scratch scratch;
  fuzz::Accepts([&] { run::ReadSafetensors(scratch.Put("model.safetensors", input.bytes())); });
}
