#include "dp_bench/mujoco/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::mujoco {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kPendulum = R"(
<mujoco model="pendulum">
  <worldbody>
    <body name="rod">
      <joint name="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02"/>
    </body>
  </worldbody>
</mujoco>)";

class ModelOfAFile : public testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& text) const {
    const fs::path file = folder_.path() / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }

  ScratchFolder folder_;
};

TEST_F(ModelOfAFile, IsSharedWhileItIsUsed) {
  const fs::path file = Write("pendulum.xml", kPendulum);
  const auto model = SharedModel(file);
  EXPECT_EQ(SharedModel(file), model);
  const ModelPtr copy = CopyModel(*model);
  copy->opt.timestep = 0.5;
  EXPECT_NE(model->opt.timestep, 0.5);
}

TEST_F(ModelOfAFile, IsReadAgainWhenItIsNoLongerUsed) {
  const fs::path file = Write("pendulum.xml", kPendulum);
  SharedModel(file);
  Write("pendulum.xml", "<mujoco model='another'/>");
  EXPECT_STREQ(SharedModel(file)->names, "another");
}

TEST_F(ModelOfAFile, AnErrorNamesTheFile) {
  const fs::path file =
      Write("flat.xml", "<mujoco><worldbody><geom type='box'/></worldbody></mujoco>");
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { LoadModel(file); }),
              AllOf(HasSubstr("expected a MuJoCo scene in " + file.string()), HasSubstr("size")));
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { LoadModel(folder_.path() / "none.xml"); }),
              HasSubstr("none.xml"));
}

TEST_F(ModelOfAFile, AMissingPartIsNamedWithThosePresent) {
  const ModelPtr model = LoadModel(Write("pendulum.xml", kPendulum));
  EXPECT_EQ(IdOf(*model, mjOBJ_JOINT, "hinge"), 0);
  EXPECT_EQ(MessageOf(ErrorCode::kEnv, [&] { IdOf(*model, mjOBJ_JOINT, "elbow"); }),
            "expected a joint named 'elbow' in the MuJoCo model 'pendulum', found: hinge");
  EXPECT_EQ(MessageOf(ErrorCode::kEnv, [&] { IdOf(*model, mjOBJ_CAMERA, "front"); }),
            "expected a camera named 'front' in the MuJoCo model 'pendulum', found: no such name");
}

TEST_F(ModelOfAFile, ABrokenSimulationIsAnErrorOfItsStep) {
  const ModelPtr model = LoadModel(Write("pendulum.xml", kPendulum));
  const DataPtr data = MakeData(*model);
  mj_step(model.get(), data.get());
  RequireHealthy(*data, 0, 7);
  data->qpos[0] = std::numeric_limits<double>::quiet_NaN();
  mj_step(model.get(), data.get());
  EXPECT_THAT(
      MessageOf(ErrorCode::kNumeric, [&] { RequireHealthy(*data, 12, 7); }),
      HasSubstr("broke down in step 12 of the episode with seed 7: a position is not finite"));
  mj_resetData(model.get(), data.get());
  RequireHealthy(*data, 0, 7);
}

TEST_F(ModelOfAFile, AnErrorOfMujocoNamesTheEpisode) {
  InstallLog();
  const std::string scene = "pendulum.xml";
  const LogScope log(scene, 42);
  EXPECT_DEATH(mju_error("out of luck"), "MuJoCo: .*out of luck.*pendulum.xml.*seed 42");
}

TEST_F(ModelOfAFile, ANamedFolderMustHoldTheScene) {
  const fs::path file = Write("robot/pendulum.xml", kPendulum);
  EXPECT_EQ(FindScene("robot/pendulum.xml", folder_.path().string()), file);
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [] { FindScene("robot/pendulum.xml", "/nowhere"); }),
              HasSubstr("looked for:\n  /nowhere/robot/pendulum.xml\n"));
}

TEST_F(ModelOfAFile, IsFoundBesideTheLibraryThatAsks) {
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [] { FindScene("no/such.xml"); }),
              AllOf(HasSubstr("\n  scenes/no/such.xml"),
                    HasSubstr(fs::canonical("/proc/self/exe").parent_path().string() +
                              "/scenes/no/such.xml"),
                    HasSubstr("/share/dp_bench/scenes/no/such.xml")));
}

}  // namespace
}  // namespace dp_bench::mujoco
