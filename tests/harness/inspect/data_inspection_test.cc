// The inspection of a dataset, and its page.
#include "inspect/data_inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/atomic_file.h"
#include "harness/diagnose/reach_task.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::inspect {
namespace {

using diagnose::kImageSize;
using diagnose::ReachDataset;
using testing::HasSubstr;
using testing::Not;

class NoEpisodes : public Dataset {
 public:
  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return {}; }
  void DoRead(int, std::int64_t, std::int64_t, std::span<std::byte>) const override {}

 private:
  DatasetSpec spec_;
};

std::string PageOf(const DataInspection& inspection) {
  const ScratchFolder scratch;
  WriteDataPage(inspection, scratch.path() / "data.html");
  return core::ReadTextFile(scratch.path() / "data.html", 1U << 24);
}

TEST(DataInspection, CountsAndMeasures) {
  const ReachDataset dataset(/*has_images=*/true, /*n_episodes=*/6, /*n_steps=*/30);
  const DataInspection inspection = InspectData(dataset, "reach");
  EXPECT_EQ(inspection.lengths, std::vector<std::int64_t>(6, 30));
  EXPECT_EQ(inspection.n_steps(), 180);
  EXPECT_FALSE(HasProblems(inspection.faults)) << ToText(inspection.faults);
  const nlohmann::json json = ToJson(inspection);
  EXPECT_EQ(json["n_episodes"], 6);
  EXPECT_EQ(json["keys"][0]["name"], "action");
  EXPECT_EQ(json["keys"][3]["type"], "rgb");
  EXPECT_EQ(json["keys"][3]["stats"]["max"], (std::vector<double>{220, 60, 160}));
  EXPECT_EQ(json["keys"][3]["n_frames"], 180);
}

TEST(DataInspection, NamesEpisodeAndStepOfAFault) {
  ReachDataset dataset(/*has_images=*/false, 6, 30);
  dataset.goal[2 * 65 + 1] = std::numeric_limits<float>::infinity();
  const DataInspection inspection = InspectData(dataset, "reach");
  EXPECT_TRUE(HasProblems(inspection.faults));
  EXPECT_THAT(ToText(inspection), HasSubstr("'goal' at episode 2, step 5"));
}

TEST(DataInspection, ImagesOfTheSampleAreThoseOfTheData) {
  const ReachDataset dataset(/*has_images=*/true, 6, 30);
  const DataInspection inspection = InspectData(dataset, "reach");
  ASSERT_EQ(inspection.frames.size(), 6U);
  EXPECT_EQ(inspection.frames[2].episode, 2);
  EXPECT_EQ(inspection.frames[2].step, 0);
  const auto first = dataset.image.begin() + 60 * kImageSize * kImageSize * 3;
  EXPECT_TRUE(std::equal(inspection.frames[2].image.pixels.begin(),
                         inspection.frames[2].image.pixels.end(), first));
}

TEST(DataInspection, ThePageLoadsNothingAndEscapesNames) {
  const ReachDataset dataset(/*has_images=*/true, 6, 30);
  const std::string page = PageOf(InspectData(dataset, "<b>reach"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;reach"));
  EXPECT_THAT(page, HasSubstr("src=\"data:image/png;base64,"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

// Without the dtype, depth in millimetres would be taken for metres.
TEST(EnvInspection, ItsShapeMetaIsThatOfTheEnv) {
  EnvInspection inspection{.name = "look", .plugin = "toy", .spec = {}};
  inspection.spec.shape_meta = {.obs = {{.name = "depth",
                                         .type = KeyType::kDepth,
                                         .shape = {1, 4, 4},
                                         .dtype = DType::kUInt16},
                                        {.name = "state", .shape = {2}}},
                                .action = {.name = "action", .shape = {2}}};
  const nlohmann::json meta = ToJson(inspection)["shape_meta"];
  EXPECT_EQ(ShapeMeta::FromConfig(Config::FromJson(meta.dump())), inspection.spec.shape_meta);
}

TEST(DataInspection, RefusesADataSetWithoutEpisodes) {
  EXPECT_THAT(MessageOf(ErrorCode::kData, [] { InspectData(NoEpisodes(), "empty"); }),
              HasSubstr("'empty' holds no episode"));
}

}  // namespace
}  // namespace dp_bench::inspect
