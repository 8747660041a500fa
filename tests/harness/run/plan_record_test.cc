// A record of plans gives back what was asked and answered, also after a kill.
#include "run/plan_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "dp_bench/error.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t kBatch = 4;

// A batch of rows with numbers that no other has; `n` rows of it count.
void AddBatch(PlanRecordWriter& writer, std::uint64_t seed, std::size_t n) {
  control::ObsBatch obs;
  obs.emplace("pos", Array(DType::kFloat32, {kBatch, 2, 3}));
  const std::span<float> pos = obs.find("pos")->second.as<float>();
  std::iota(pos.begin(), pos.end(), static_cast<float>(100 * seed));
  std::vector<control::PlanRow> rows;
  for (std::size_t i = 0; i < n; ++i) rows.push_back({.seed = seed + i, .env_step = 8});
  std::vector<std::string> faults(n);
  faults.back() = "policy_timeout: none";
  std::vector<float> actions(kBatch * 2 * 2);
  std::iota(actions.begin(), actions.end(), static_cast<float>(seed));
  writer.Add(obs, rows, faults, actions, {2, 2});
}

class PlanRecordTest : public testing::Test {
 protected:
  void WriteIndex(const std::string& text) {
    std::ofstream(folder_.path() / "plans.jsonl", std::ios::app) << text;
  }

  ScratchFolder folder_;
};

TEST_F(PlanRecordTest, HasTheRowsThatWereAskedButNoPadding) {
  {
    PlanRecordWriter writer(folder_.path());
    AddBatch(writer, 5, 2);
    AddBatch(writer, 9, 1);
  }
  EXPECT_TRUE(PlanRecord::IsIn(folder_.path()));
  PlanRecord record(folder_.path());
  ASSERT_EQ(record.plans().size(), 3U);
  const RecordedPlan& plan = record.plans()[1];
  EXPECT_EQ(plan.seed, 6U);
  EXPECT_EQ(plan.step, 8U);
  EXPECT_EQ(plan.fault, "policy_timeout: none");
  const ArrayMap arrays = record.Read(plan);
  EXPECT_EQ(arrays.find("obs.pos")->second.shape(), (Shape{2, 3}));
  EXPECT_THAT(arrays.find("obs.pos")->second.as<float>(),
              testing::ElementsAre(506, 507, 508, 509, 510, 511));
  EXPECT_THAT(arrays.find("action")->second.as<float>(), testing::ElementsAre(9, 10, 11, 12));
  EXPECT_EQ(record.plans()[0].fault, "");
}

TEST_F(PlanRecordTest, IsContinuedBehindTheLastWholeLine) {
  {
    PlanRecordWriter writer(folder_.path());
    AddBatch(writer, 5, 2);
  }
  WriteIndex(R"({"file":"plan_0000)");
  {
    PlanRecordWriter writer(folder_.path());
    AddBatch(writer, 7, 1);
  }
  PlanRecord record(folder_.path());
  ASSERT_EQ(record.plans().size(), 3U);
  EXPECT_EQ(record.plans()[2].file, "plan_000001.safetensors");
  EXPECT_EQ(record.Read(record.plans()[2]).find("obs.pos")->second.as<float>()[0], 700.0F);
}

TEST_F(PlanRecordTest, KeepsNothingMoreOnceItIsFull) {
  const std::uint64_t one_row = 2 * 3 * 4 + 2 * 2 * 4;
  for (int i = 0; i < 2; ++i) {  // what is there counts too
    PlanRecordWriter writer(folder_.path(), 2 * one_row);
    AddBatch(writer, 5, 1);
    AddBatch(writer, 6, 2);
  }
  EXPECT_EQ(PlanRecord(folder_.path()).plans().size(), 1U);
}

TEST_F(PlanRecordTest, EndsWhenItCannotBeWritten) {
  PlanRecordWriter writer(folder_.path() / "moved");
  std::filesystem::remove_all(folder_.path() / "moved");
  EXPECT_NO_THROW(AddBatch(writer, 1, 1));
  std::filesystem::create_directory(folder_.path() / "moved");
  AddBatch(writer, 2, 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "moved"));
}

TEST_F(PlanRecordTest, LinesOfOtherFilesAreRefusedByTheirNumber) {
  WriteIndex("{\"file\":\"plan_000000.safetensors\",\"row\":0,\"seed\":1,\"step\":0}\n");
  for (const char* const line :
       {"no json", "[]", R"({"file":"a.safetensors","row":0,"seed":-1,"step":0})",
        R"({"file":"../a.safetensors","row":0,"seed":1,"step":0})",
        R"({"file":"a.safetensors","row":-1,"seed":1,"step":0})",
        R"({"row":0,"seed":1,"step":0})"}) {
    const ScratchFolder other;
    std::ofstream(other.path() / "plans.jsonl")
        << "{\"file\":\"a\",\"row\":0,\"seed\":1,\"step\":0}\n"
        << line << "\n";
    EXPECT_THAT([&] { PlanRecord{other.path()}; }, ThrowsMessage<Error>(HasSubstr("plans.jsonl:2")))
        << line;
    EXPECT_THROW(PlanRecordWriter{other.path()}, Error) << line;
  }
}

TEST_F(PlanRecordTest, ARowThatTheFileLacksIsRefused) {
  {
    PlanRecordWriter writer(folder_.path());
    AddBatch(writer, 5, 2);
  }
  WriteIndex("{\"file\":\"plan_000000.safetensors\",\"row\":2,\"seed\":1,\"step\":0}\n");
  PlanRecord record(folder_.path());
  EXPECT_THAT([&] { record.Read(record.plans().back()); },
              ThrowsMessage<Error>(HasSubstr("has no row 2")));
}

}  // namespace
}  // namespace dp_bench::run
