#include "data/task_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TaskKey Read(const std::string& section) {
  const Config config = Config::FromJson(section, "a.json");
  TaskKey key = TaskKey::FromConfig(config);
  config.RejectUnread();
  return key;
}

std::string RefusalOf(const std::string& section) {
  return MessageOf(ErrorCode::kConfig, [&] { Read(section); });
}

TEST(TaskKeyTest, ListedTasksAreOneHotInTheOrderOfTheList) {
  const TaskKey key = Read(R"({"tasks": ["reach", "door", "push"]})");
  EXPECT_THAT(key.Of("reach", ""), ElementsAre(1, 0, 0));
  EXPECT_THAT(key.Of("door", ""), ElementsAre(0, 1, 0));
  EXPECT_THAT(key.Of("push", ""), ElementsAre(0, 0, 1));
  EXPECT_EQ(key.spec(), (KeySpec{.name = "task", .type = KeyType::kTask, .shape = {3}}));
}

TEST(TaskKeyTest, VectorsMayBeAnyNumbers) {
  const TaskKey key = Read(R"({"vectors": {"open the door": [0.5, -1], "push": [2, 3]}})");
  EXPECT_THAT(key.Of("open the door", ""), ElementsAre(0.5F, -1.0F));
  EXPECT_EQ(key.spec().shape, Shape{2});
}

TEST(TaskKeyTest, TheVectorsOfAFileBecomePartOfTheConfig) {
  const ScratchFolder scratch;
  const std::string file = scratch.path() / "vectors.json";
  std::ofstream(file) << R"({"reach": [0.25, 1], "push": [0, 2]})";
  const nlohmann::json section = {{"file", file}};
  const Config config = Config::FromJson(section.dump(), "a.json");
  EXPECT_THAT(TaskKey::FromConfig(config).Of("reach", ""), ElementsAre(0.25F, 1.0F));

  // the config of the run, also where the file is not
  const std::string resolved = config.ToJson();
  EXPECT_THAT(Read(resolved).Of("push", ""), ElementsAre(0.0F, 2.0F));
  std::ofstream(file) << R"({"reach": [0.5, 1], "push": [0, 2]})";
  EXPECT_THAT(RefusalOf(resolved), AllOf(HasSubstr("vectors.json' has other vectors"),
                                         HasSubstr("leave out file or vectors")));
  std::filesystem::remove(file);
  EXPECT_THAT(Read(resolved).Of("reach", ""), ElementsAre(0.25F, 1.0F));
}

TEST(TaskKeyTest, AnUnknownTaskIsRefusedWithTheNearestName) {
  const TaskKey key = Read(R"({"tasks": ["reach-v3", "push-v3"]})");
  const std::string message =
      MessageOf(ErrorCode::kConfig, [&] { key.Of("reech-v3", "the env's task"); });
  EXPECT_THAT(message,
              HasSubstr("the env's task is 'reech-v3', which is none of its tasks; did you "
                        "mean 'reach-v3'? They are: push-v3, reach-v3"));
}

TEST(TaskKeyTest, ASectionThatCannotWorkIsRefused) {
  EXPECT_THAT(RefusalOf("{}"), HasSubstr("expected tasks, vectors or file, one of them"));
  EXPECT_THAT(RefusalOf(R"({"tasks": ["a"], "vectors": {"a": [1]}})"), HasSubstr("one of them"));
  EXPECT_THAT(RefusalOf(R"({"tasks": ["a", "a"]})"), HasSubstr("tasks: 'a' is listed twice"));
  EXPECT_THAT(RefusalOf(R"({"vectors": {"a": [1, 2], "b": [1]}})"),
              HasSubstr("expected as many numbers as 'a' has, 2, at least 1; found 1"));
  EXPECT_THAT(RefusalOf(R"({"vectors": {"a": []}})"), HasSubstr("at least 1; found 0"));
  EXPECT_THAT(RefusalOf(R"({"vectors": {"a": [1e300]}})"),
              HasSubstr("expected numbers that fit float32, found 1e+300"));
  EXPECT_THAT(RefusalOf(R"({"tasks": ["a"], "task": 1})"), HasSubstr("did you mean 'tasks'"));
}

}  // namespace
}  // namespace dp_bench::data
