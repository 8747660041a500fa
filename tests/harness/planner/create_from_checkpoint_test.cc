// Creates a policy from a checkpoint folder alone.
#include "planner/create_from_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/error_of.h"
#include "support/small_policy.h"

namespace dp_bench::planner {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A shipped checkpoint, in the first version of the format.
fs::path Shipped() { return fs::path(DPB_SOURCE_DIR) / "models/pusht_unet_hybrid"; }

TEST(CreateFromCheckpoint, FolderAloneGivesThePolicyAndItsConfig) {
  plugin::PluginCatalogue catalogue({DPB_PLUGIN_DIR});
  const PolicyFromCheckpoint loaded = CreateFromCheckpoint(Shipped(), catalogue);
  EXPECT_EQ(loaded.config.Sub("policy").Get<std::string>("plugin"), "unet_hybrid");
  Policy& policy = *loaded.policy;
  EXPECT_FALSE(policy.module().is_training());
  const ArrayMap saved = run::Checkpoint::Open(Shipped()).ReadTensors(run::kEmaFile);
  const ArrayMap held = ModuleState(policy.module());
  ASSERT_EQ(held.size(), saved.size());
  for (const auto& [name, array] : saved) {
    EXPECT_TRUE(std::ranges::equal(held.at(name).bytes(), array.bytes())) << name;
  }

  TensorMap obs;
  for (const KeySpec& key : policy.spec().shape_meta.obs) {
    Shape shape = {1, policy.spec().horizons.n_obs_steps};
    shape.insert(shape.end(), key.shape.begin(), key.shape.end());
    obs[key.name] = torch::ones(shape);
  }
  NoiseSource noise = NoiseOfRows(1);
  EXPECT_TRUE(torch::isfinite(policy.PredictAction(obs, noise)).all().item<bool>());
}

TEST(CreateFromCheckpoint, WeightsThatWereNotSavedAreAnErrorThatNamesTheOthers) {
  plugin::PluginCatalogue catalogue({DPB_PLUGIN_DIR});
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint,
                        [&] { CreateFromCheckpoint(Shipped(), catalogue, Weights::kModel); }),
              HasSubstr("was saved without model.safetensors; use its other weights: ema"));
}

}  // namespace
}  // namespace dp_bench::planner
