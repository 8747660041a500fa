// The host with good and broken plugin files: every fault is reported in full, and nothing else
// breaks.
#include "plugin/catalogue.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/build_id.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

fs::path Folder(const std::string& name) { return fs::path(DPB_BROKEN_PLUGIN_DIR) / name; }

std::string PluginErrorOf(const std::function<void()>& call) {
  return MessageOf(ErrorCode::kPlugin, call);
}

std::string LoadErrorOf(const fs::path& file) {
  return PluginErrorOf([&] { PluginCatalogue({}).LoadFile(file); });
}

constexpr std::array<float, 1> kToyAction = {0.0F};

std::string FaultOf(const std::string& fault) {
  PluginCatalogue catalogue({Folder("good")});
  return PluginErrorOf([&] {
    const auto env =
        catalogue.Create<Env>("toy", Config::FromJson("{\"fault\": \"" + fault + "\"}"));
    env->Reset(0);
    env->Step(kToyAction);
  });
}

TEST(PluginCatalogue, CreatesAnEnvFromAFileOfTheSearchPath) {
  PluginCatalogue catalogue({Folder("good")});
  const auto env = catalogue.Create<Env>("toy", Config::FromJson("{}"));
  EXPECT_EQ(env->spec().max_steps, 3);
  env->Reset(0);
  EXPECT_EQ(env->Step(kToyAction).reward, 0.5);
}

TEST(PluginCatalogue, AReaderFromAnyFolderRecognizesItsDatasets) {
  PluginCatalogue catalogue({Folder("mistaken")});
  EXPECT_EQ(catalogue.ReaderOf("recordings/first.mistaken"), "mistaken");
  EXPECT_TRUE(catalogue.IsFormatReader("mistaken"));
  EXPECT_EQ(catalogue.ReaderOf("first.zarr"), "zarr_replay") << "what none recognizes";
  EXPECT_TRUE(catalogue.IsFormatReader("zarr_replay"));
  EXPECT_FALSE(catalogue.IsFormatReader("toy"));
  EXPECT_THAT(PluginErrorOf([&] { catalogue.ReaderOf("a.unreadable"); }),
              AllOf(HasSubstr("dataset plugin 'mistaken'"), HasSubstr("during recognizes"),
                    HasSubstr("cannot look")));
}

TEST(PluginCatalogue, TwoReadersThatRecognizeADatasetAreNamed) {
  PluginCatalogue catalogue({Folder("mistaken"), Folder("rival")});
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { catalogue.ReaderOf("a.mistaken"); }),
              AllOf(HasSubstr("found mistaken, rival"), HasSubstr("dataset.plugin=mistaken")));
}

TEST(PluginCatalogue, DescribesAnEnvWithoutCreatingIt) {
  PluginCatalogue catalogue({Folder("good")});
  const auto params = [](const std::string& fault) {
    return Config::FromJson(R"({"fault": ")" + fault + R"("})");
  };
  EXPECT_EQ(catalogue.DescribeEnv("toy", params("create_throws_std")).max_steps, 3);
  EXPECT_THAT(PluginErrorOf([&] { catalogue.DescribeEnv("toy", params("describe_throws_std")); }),
              AllOf(HasSubstr("the plugin threw no model file"), HasSubstr("during Describe")));
  EXPECT_EQ(CodeOf([&] { catalogue.DescribeEnv("toy", Config::FromJson(R"({"x": 1})")); }),
            ErrorCode::kConfig);
}

TEST(PluginCatalogue, AnAbilityThatIsDeclaredAndMissingIsReportedWhenItIsUsed) {
  PluginCatalogue catalogue({Folder("good")});
  const auto env = catalogue.Create<Env>("toy", Config::FromJson(R"({"fault": "false_ability"})"));
  env->Reset(0);
  float action[1] = {};
  EXPECT_THAT(PluginErrorOf([&] { env->Act(action); }),
              AllOf(HasSubstr("declares has_expert and there is no DoAct"),
                    HasSubstr("in env plugin 'toy'")));
}

TEST(PluginCatalogue, AnEnvOtherThanTheOneThatWasDescribedIsRefused) {
  EXPECT_THAT(FaultOf("described_otherwise"),
              AllOf(HasSubstr("expected the spec that Describe gives for the same params"),
                    HasSubstr("found another"), HasSubstr("during Create")));
}

TEST(PluginCatalogue, AStrippedPluginIsAsGoodAsAnyOther) {
  PluginCatalogue catalogue({Folder("stripped")});
  EXPECT_NE(catalogue.Create<Env>("toy", Config::FromJson("{}")), nullptr);
}

TEST(PluginCatalogue, ListsNameKindVersionBuildIdAndFile) {
  const std::vector<PluginInfo> infos = PluginCatalogue({Folder("good")}).List();
  ASSERT_EQ(infos.size(), 1U);
  EXPECT_EQ(infos[0].name, "toy");
  EXPECT_EQ(infos[0].kind, PluginKind::kEnv);
  EXPECT_EQ(infos[0].version, "0.1.0");
  EXPECT_EQ(infos[0].build_id, kCoreBuildId);
  EXPECT_EQ(infos[0].file, Folder("good") / "libdpb_env_toy.so");
  EXPECT_EQ(infos[0].refused, "");
}

TEST(PluginCatalogue, ListsRefusedFilesWithTheReason) {
  const std::vector<PluginInfo> infos = PluginCatalogue({Folder("abi"), Folder("twice")}).List();
  ASSERT_EQ(infos.size(), 3U);
  EXPECT_EQ(infos[0].name, "twin");
  EXPECT_THAT(infos[0].refused, HasSubstr("the same name as"));
  EXPECT_THAT(infos[1].refused, HasSubstr("libdpb_env_first.so"));
  EXPECT_EQ(infos[2].name, "wrong");
  EXPECT_THAT(infos[2].refused, HasSubstr("SDK ABI"));
}

TEST(PluginCatalogue, AWrongMagicIsNoPlugin) {
  EXPECT_THAT(LoadErrorOf(Folder("magic") / "libdpb_env_wrong.so"),
              AllOf(HasSubstr("is not a dp_bench plugin"), HasSubstr("0x44504250")));
}

TEST(PluginCatalogue, AWrongAbiNamesBothNumbers) {
  EXPECT_THAT(LoadErrorOf(Folder("abi") / "libdpb_env_wrong.so"),
              AllOf(HasSubstr("its SDK ABI is 999, the host has " + std::to_string(kAbiVersion)),
                    HasSubstr("Rebuild it")));
}

TEST(PluginCatalogue, AWrongBuildIdNamesBothBuilds) {
  EXPECT_THAT(LoadErrorOf(Folder("build_id") / "libdpb_env_wrong.so"),
              AllOf(HasSubstr("built as 'Other-1 c++98'"), HasSubstr(kCoreBuildId)));
}

// A library that decides otherwise about its containers would crash with the host's.
TEST(PluginCatalogue, APluginBuiltWithDebugContainersIsRefused) {
  EXPECT_THAT(LoadErrorOf(Folder("debug_containers") / "libdpb_dataset_mistaken.so"),
              AllOf(HasSubstr("_GLIBCXX_DEBUG"), HasSubstr(kCoreBuildId), HasSubstr("Rebuild it")));
  EXPECT_THAT(LoadErrorOf(Folder("debug_containers") / "libdpb_env_toy.so"),
              AllOf(HasSubstr("undefined symbol"), HasSubstr("Rebuild it")));
}

TEST(PluginCatalogue, ABareEnvIsCheckedAndNotNamed) {
  PluginCatalogue catalogue({Folder("good")});
  const auto env = catalogue.CreateBare<Env>("toy", Config::FromJson("{}"));
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { env->Step({}); }),
              AllOf(HasSubstr("has not begun"), testing::Not(HasSubstr("in env plugin"))));
}

TEST(PluginCatalogue, AKindOtherThanTheFileNameSaysIsRefused) {
  PluginCatalogue catalogue({Folder("kind")});
  EXPECT_THAT(PluginErrorOf([&] { catalogue.Find(PluginKind::kEnv, "wrong"); }),
              HasSubstr("refused: " + (Folder("kind") / "libdpb_env_wrong.so").string() +
                        ": its kind is dataset, expected env"));
}

TEST(PluginCatalogue, EverythingWrongIsSaidAtOnce) {
  EXPECT_THAT(LoadErrorOf(Folder("everything") / "libdpb_env_wrong.so"),
              AllOf(HasSubstr("SDK ABI is 999"), HasSubstr("its kind is unknown (77)"),
                    HasSubstr("built as ''"), HasSubstr("'Not Snake' is not in snake_case")));
}

TEST(PluginCatalogue, TwoFilesOfOneNameAreAnErrorNamingBoth) {
  PluginCatalogue catalogue({Folder("twice")});
  EXPECT_THAT(PluginErrorOf([&] { catalogue.Create<Env>("twin", Config::FromJson("{}")); }),
              AllOf(HasSubstr("libdpb_env_first.so"), HasSubstr("libdpb_env_second.so")));
}

TEST(PluginCatalogue, WithAFileOfItsNameAPluginIsFoundWithoutLoadingOthers) {
  const ScratchFolder scratch;
  const fs::path other = scratch.path() / "libdpb_env_first.so";
  fs::copy_file(Folder("twice") / "libdpb_env_first.so", other);
  fs::copy_file(Folder("twice") / "libdpb_env_second.so", scratch.path() / "libdpb_env_twin.so");
  PluginCatalogue catalogue({scratch.path()});
  EXPECT_EQ(catalogue.Find(PluginKind::kEnv, "twin").file, scratch.path() / "libdpb_env_twin.so");
  EXPECT_EQ(dlopen(other.c_str(), RTLD_LAZY | RTLD_NOLOAD), nullptr);
  EXPECT_FALSE(catalogue.FindIfPresent(PluginKind::kEnv, "triplet"));
}

TEST(PluginCatalogue, OneFileReachedOnTwoWaysIsNoDuplicate) {
  const ScratchFolder scratch;
  const fs::path link = scratch.path() / "again";
  fs::create_directory_symlink(Folder("good"), link);
  PluginCatalogue catalogue({Folder("good"), link, Folder("good")});
  EXPECT_EQ(catalogue.Find(PluginKind::kEnv, "toy").name, "toy");
}

TEST(PluginCatalogue, ALibraryWithoutTheEntryIsRefusedBeforeItsCodeRuns) {
  const ScratchFolder scratch;
  const fs::path canary = scratch.path() / "canary";
  ASSERT_EQ(setenv("DPB_TEST_CANARY", canary.c_str(), 1), 0);
  EXPECT_THAT(LoadErrorOf(Folder("no_entry") / "libdpb_env_canary.so"),
              HasSubstr("does not export dp_bench_plugin"));
  EXPECT_FALSE(fs::exists(canary));

  // the same file does leave its trace when it is loaded
  const fs::path file = Folder("no_entry") / "libdpb_env_canary.so";
  ASSERT_NE(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr);
  EXPECT_TRUE(fs::exists(canary));
}

TEST(PluginCatalogue, FilesThatAreNoLibrariesAreRefused) {
  const ScratchFolder scratch;
  const auto refusal_of = [&](const std::string& bytes) {
    const fs::path file = scratch.path() / "libdpb_env_x.so";
    std::ofstream(file, std::ios::binary) << bytes;
    return LoadErrorOf(file);
  };
  EXPECT_THAT(refusal_of(""), HasSubstr("it is not a shared library"));
  EXPECT_THAT(refusal_of(std::string(5000, '#')), HasSubstr("it is not a shared library"));
  EXPECT_THAT(LoadErrorOf("/no/such/file.so"), HasSubstr("No such file"));
  EXPECT_THAT(LoadErrorOf(scratch.path()), HasSubstr("found a folder"));
  EXPECT_THAT(LoadErrorOf("/dev/zero"), HasSubstr("found a device"));
  const fs::path fifo = scratch.path() / "libdpb_env_fifo.so";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(LoadErrorOf(fifo), HasSubstr("found a named pipe (FIFO)"));  // without waiting
}

TEST(PluginCatalogue, ADamagedLibraryIsRefused) {
  const ScratchFolder scratch;
  const std::string bytes =
      core::ReadTextFile(Folder("good") / "libdpb_env_toy.so", std::size_t{1} << 30);
  const auto load = [&](const std::string& name, const std::string& content) {
    const fs::path file = scratch.path() / name;
    std::ofstream(file, std::ios::binary) << content;
    return LoadErrorOf(file);
  };
  for (const std::size_t length : {10, 63, 64, 1000, 5000}) {
    EXPECT_THAT(
        load(fmt::format("cut_{}.so", length), bytes.substr(0, length)),
        testing::AnyOf(HasSubstr("is not a dp_bench plugin"), HasSubstr("cannot be loaded")))
        << "length " << length;
  }
  std::string foreign = bytes;
  foreign[18] = 8;  // e_machine: MIPS
  foreign[19] = 0;
  EXPECT_THAT(load("mips.so", foreign), HasSubstr("cannot be loaded"));
}

TEST(PluginCatalogue, AMissingSymbolShowsWhileLoading) {
  EXPECT_THAT(LoadErrorOf(Folder("unresolved") / "libdpb_env_unresolved.so"),
              AllOf(HasSubstr("cannot be loaded"), HasSubstr("function_that_nobody_has")));
}

TEST(PluginCatalogue, ABrokenPluginDoesNotSpoilItsNeighbours) {
  PluginCatalogue catalogue({Folder("abi"), Folder("no_entry"), Folder("good")});
  EXPECT_NE(catalogue.Create<Env>("toy", Config::FromJson("{}")), nullptr);
}

TEST(PluginCatalogue, AnUnknownNameListsThoseFoundTheNearestAndTheSearchPath) {
  PluginCatalogue catalogue({Folder("good"), "/nowhere"});
  EXPECT_THAT(PluginErrorOf([&] { catalogue.Find(PluginKind::kEnv, "tyo"); }),
              AllOf(HasSubstr("no env plugin 'tyo' (did you mean 'toy'?). Found: toy."),
                    HasSubstr("libdpb_env_*.so in: " + Folder("good").string() + ", /nowhere")));
  EXPECT_THAT(PluginErrorOf([&] { catalogue.Find(PluginKind::kDataset, "toy"); }),
              HasSubstr("Found: none."));
}

TEST(PluginCatalogue, WhatAPluginThrowsNamesThePluginAndTheCall) {
  EXPECT_EQ(FaultOf("create_throws_std"),
            "the plugin threw no graphics card; expected no exception other than dp_bench::Error. "
            "Look for it in this call of the plugin.\n"
            "  in env plugin 'toy' (libdpb_env_toy.so), during Create");
  EXPECT_THAT(FaultOf("create_throws_int"),
              AllOf(HasSubstr("not a std::exception"), HasSubstr("during Create")));
  EXPECT_THAT(FaultOf("create_null"), HasSubstr("created nothing"));
  EXPECT_THAT(FaultOf("step_throws_std"), AllOf(HasSubstr("joint 7"), HasSubstr("during Step")));
  EXPECT_THAT(FaultOf("step_throws_int"),
              AllOf(HasSubstr("not a std::exception"), HasSubstr("during Step")));
}

TEST(PluginCatalogue, ParamsThatThePluginDidNotReadAreAnError) {
  PluginCatalogue catalogue({Folder("good")});
  const Config config = Config::FromJson(R"({"faults": "none"})", "my.json");
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { catalogue.Create<Env>("toy", config); }),
              AllOf(HasSubstr("my.json:1: faults (did you mean 'fault'?)"),
                    HasSubstr("in env plugin 'toy'")));
}

TEST(PluginCatalogue, LoadFileMakesAFileOfAnyNameAvailable) {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "my_env.so";
  fs::copy_file(Folder("good") / "libdpb_env_toy.so", file);
  PluginCatalogue catalogue({});
  EXPECT_EQ(catalogue.LoadFile(file).name, "toy");
  EXPECT_EQ(catalogue.LoadFile(file).kind, PluginKind::kEnv);
  EXPECT_NE(catalogue.Create<Env>("toy", Config::FromJson("{}")), nullptr);
}

TEST(PluginCatalogue, TheSearchPathIsCommandLineThenVariableThenExecutableThenHome) {
  const ScratchFolder scratch;
  const fs::path a = scratch.path() / "a";
  const fs::path b = scratch.path() / "b";
  const fs::path c = scratch.path() / "c";
  for (const fs::path& folder : {a, b, c}) fs::create_directories(folder);
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ASSERT_EQ(setenv("HOME", "/home/ada", 1), 0);
  ASSERT_EQ(setenv("DP_BENCH_PLUGIN_PATH", (b.string() + ":" + c.string()).c_str(), 1), 0);
  const std::vector<fs::path> dirs = PluginCatalogue::DefaultSearchPath({a});
  ASSERT_EQ(dirs.size(), 7U);
  EXPECT_EQ(dirs[0], a);
  EXPECT_EQ(dirs[1], b);
  EXPECT_EQ(dirs[2], c);
  EXPECT_TRUE(dirs[3].string().ends_with("/plugins")) << dirs[3];
  EXPECT_TRUE(dirs[4].string().ends_with("/lib/dp_bench/plugins")) << dirs[4];
  EXPECT_EQ(dirs[6], "/home/ada/.local/share/dp_bench/plugins");
  ASSERT_EQ(setenv("HOME", home.c_str(), 1), 0);

  ASSERT_EQ(setenv("DP_BENCH_PLUGIN_PATH", "/no/such/folder", 1), 0);
  EXPECT_THROW(PluginCatalogue::DefaultSearchPath({}), Error);
  ASSERT_EQ(unsetenv("DP_BENCH_PLUGIN_PATH"), 0);
}

}  // namespace
}  // namespace dp_bench::plugin
