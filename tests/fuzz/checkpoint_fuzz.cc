// The texts of a checkpoint: manifest.json, state.json and config.json, with a NUL in between.
#include "dp_bench/config.h"
#include "fuzz.h"
#include "run/checkpoint.h"
#include "train/train_state.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  const std::string_view manifest = input.TakeText();
  const std::string state(input.TakeText());
  fuzz::Accepts([&] { run::ParseCheckpointManifest(manifest, "manifest.json"); });
  fuzz::Accepts([&] {
    const train::TrainState read = train::TrainState::FromJson(state, "latest");
    DPB_ASSERT(train::TrainState::FromJson(read.ToJson(), "latest") == read);
  });
  fuzz::Accepts([&] { Config::FromJson(input.text(), "config.json").RejectUnread(); });
}
