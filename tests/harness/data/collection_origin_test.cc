#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/collector.h"
#include "harness/data/toy_env.h"
#include "support/error_of.h"

namespace dp_bench::data {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr const char* kEnv = R"({"plugin": "toy", "params": {"task": "a"}})";

TEST(CollectionOrigin, PathsDifferWhereEpisodesDiffer) {
  const CollectConfig config;
  const json origin = CollectionOrigin(kEnv, "1.0.0", config);
  const auto path = CollectionPath("toy_a", origin, 100);
  EXPECT_THAT(path.string(), MatchesRegex("data/toy_a-[0-9a-f]{8}\\.zarr"));
  EXPECT_NE(CollectionPath("toy_a", origin, 101), path);
  EXPECT_NE(CollectionPath("toy_a", CollectionOrigin(kEnv, "1.0.1", config), 100), path);
  EXPECT_NE(CollectionPath("toy_a", CollectionOrigin("{}", "1.0.0", config), 100), path);
  CollectConfig noisy = config;
  noisy.action_noise = 0.01;
  EXPECT_NE(CollectionPath("toy_a", CollectionOrigin(kEnv, "1.0.0", noisy), 100), path);
}

TEST(CollectionOrigin, WorkersAndOrderOfKeysAreNoPartOfIt) {
  CollectConfig config;
  const json origin = CollectionOrigin(kEnv, "1.0.0", config);
  config.n_workers = 7;
  EXPECT_EQ(CollectionOrigin(R"({"params": {"task": "a"}, "plugin": "toy"})", "1.0.0", config),
            origin);
}

TEST(RequireExpert, NamesTheEnvsThatHaveOne) {
  plugin::PluginCatalogue catalogue({DPB_PLUGIN_DIR});
  ToyWorld world;
  ToyEnv without(world, /*has_expert=*/false);
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { RequireExpert(without.spec(), "toy", catalogue); }),
      AllOf(HasSubstr("the env 'toy' has no expert"), HasSubstr("point_mass"),
            HasSubstr("--dataset")));
  ToyEnv with(world);
  RequireExpert(with.spec(), "toy", catalogue);
}

}  // namespace
}  // namespace dp_bench::data
