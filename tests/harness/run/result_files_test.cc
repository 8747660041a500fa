// A result replaces an earlier one of its kind and nothing else.
#include "run/result_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ResultFilesTest : public testing::Test {
 protected:
  fs::path Add(const std::string& name, std::string_view text) const {
    core::CreateFolders((folder_ / name).parent_path());
    core::WriteFileAtomically(folder_ / name, text);
    return folder_ / name;
  }
  void Require(const fs::path& path, const ResultKind& kind = kGateJson) const {
    RequireResultFiles({{"--json", path, kind}});
  }
  std::string Refusal(const fs::path& path, const ResultKind& kind = kGateJson) const {
    return MessageOf(ErrorCode::kUsage, [&] { Require(path, kind); });
  }

  ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(ResultFilesTest, NewFilesEmptyOnesAndEarlierResultsOfTheKindAreFree) {
  Require(folder_ / "new.json");
  Require(Add("empty.json", ""));
  const fs::path earlier = Add("gate.json", R"({"format": "dp_bench.gate.v1"})");
  Require(earlier);
  fs::create_symlink("gate.json", folder_ / "link");
  Require(folder_ / "link");
}

TEST_F(ResultFilesTest, AnythingElseIsNotReplaced) {
  EXPECT_THAT(Refusal(Add("notes.txt", "mine")),
              AllOf(HasSubstr("--json"), HasSubstr("notes.txt"), HasSubstr("dp_bench gate --json"),
                    HasSubstr("Give another name")));
  const fs::path baseline = Add("b.json", R"({"format": "dp_bench.baseline.v1"})");
  Refusal(baseline);
  fs::create_symlink("b.json", folder_ / "link");
  Refusal(folder_ / "link");
  Refusal(Add("clip.mp4", "no video"), kMp4File);
}

TEST_F(ResultFilesTest, NoNameOfARunsFilesIsTaken) {
  for (const char* file : {"manifest.json", "config.json", "episodes.jsonl", "report.html"}) {
    Add(std::string("run/") + file, R"({"format": "dp_bench.gate.v1"})");
  }
  Add("run/checkpoints/latest/model.safetensors", "x");
  Add("run/media/test_7.mp4", "ftyp");
  for (const char* file :
       {"episodes.jsonl", "report.html", "latency.json", "checkpoints/new.json",
        "checkpoints/latest/gate.json", "media/test_7.mp4", "media/../episodes.jsonl"}) {
    EXPECT_THAT(Refusal(folder_ / "run" / file, kMp4File), HasSubstr("a file of the run")) << file;
  }
  fs::create_symlink("run/latency.json", folder_ / "link.json");
  EXPECT_THAT(Refusal(folder_ / "link.json"), HasSubstr("a file of the run"));
  Require(folder_ / "run/grid.mp4", kMp4File);
  Require(folder_ / "run/media/grid.mp4", kMp4File);
  // the same name in a folder that holds no run
  Add("report.html", "<meta content=\"dp_bench compare\">");
  Require(folder_ / "report.html", kComparisonPage);
}

TEST_F(ResultFilesTest, TwoResultsNeedTwoFiles) {
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] {
                          RequireResultFiles({{"--json", folder_ / "a", kGateJson},
                                              {"--junit", folder_ / "." / "a", kGateJUnit}});
                        }),
              AllOf(HasSubstr("--junit"), HasSubstr("another result goes there too")));
}

}  // namespace
}  // namespace dp_bench::run
