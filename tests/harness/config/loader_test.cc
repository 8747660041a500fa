// Files, includes, names on the command line and overrides become one config, which can be written
// and run again.
#include "config/loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "config/document.h"
#include "config/name.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::config {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMaxSeconds = 60.0;
#else
constexpr double kMaxSeconds = 5.0;
#endif

// Two plugins. One of them recognizes the datasets that it reads.
class TwoReaders final : public DatasetReaders {
 public:
  std::string ReaderOf(const fs::path& path) override {
    return fs::exists(path / "meta/info.json") ? "lerobot" : kReplayPlugin;
  }
  bool IsFormatReader(const std::string& plugin) override {
    return plugin == "lerobot" || plugin == kReplayPlugin;
  }
};

class LoaderTest : public testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& text) const {
    const fs::path path = dir_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }

  Config LoadFile(const fs::path& file, std::vector<std::string> overrides = {}) const {
    return LoadConfig({.config = file, .overrides = std::move(overrides), .config_dirs = {dir_}});
  }

  // The section `dataset` with this path on the command line.
  Config DatasetOf(const fs::path& data, const fs::path& file = {}) {
    return LoadConfig({.dataset = data.string(), .config = file, .readers = &readers_})
        .Sub("dataset");
  }

  std::string FaultOf(const fs::path& file, const std::vector<std::string>& overrides = {}) const {
    return MessageOf(ErrorCode::kConfig, [&] { LoadFile(file, overrides); });
  }

  ScratchFolder scratch_;
  const fs::path& dir_ = scratch_.path();
  TwoReaders readers_;
};

TEST_F(LoaderTest, LaterIncludesOverrideEarlierOnesAndOwnKeysOverrideBoth) {
  Write("task/a.json", R"({"x": {"from": "a", "a": 1}, "list": [1, 2], "y": "a"})");
  Write("task/b.json", R"({"x": {"from": "b"}, "list": [3], "y": "b"})");
  const Config config = LoadFile(Write(
      "experiment/e.json", R"({"y": "own", "include": ["../task/a.json", "../task/b.json"]})"));
  EXPECT_EQ(config.Sub("x").Get<std::string>("from"), "b");
  EXPECT_EQ(config.Sub("x").Get<int>("a"), 1);
  EXPECT_THAT(config.Get<std::vector<std::int64_t>>("list"), testing::ElementsAre(3));
  EXPECT_EQ(config.Get<std::string>("y"), "own");
  EXPECT_FALSE(config.Has("include"));
  EXPECT_EQ(config.Sub("x").Where("a"), (dir_ / "task/a.json").string() + ":1: x.a");
  EXPECT_EQ(config.Sub("x").Where("from"), (dir_ / "task/b.json").string() + ":1: x.from");
}

TEST_F(LoaderTest, AnIncludeCycleIsAnErrorNamingTheChain) {
  Write("b.json", R"({"include": "a.json"})");
  const fs::path a = Write("a.json", R"({"include": ["b.json"]})");
  EXPECT_THAT(FaultOf(a),
              AllOf(HasSubstr("b.json:1: the files include each other"), HasSubstr("a.json -> ")));
}

TEST_F(LoaderTest, OneFileMayBeIncludedOnTwoWays) {
  Write("base.json", R"({"x": 1})");
  Write("a.json", R"({"include": "base.json"})");
  Write("b.json", R"({"include": "base.json"})");
  EXPECT_EQ(LoadFile(Write("e.json", R"({"include": ["a.json", "b.json"]})")).Get<int>("x"), 1);
}

TEST_F(LoaderTest, IncludesThatMultiplyAreStopped) {
  Write("f0.json", "{}");
  for (int i = 1; i < 15; ++i) {
    Write(fmt::format("f{}.json", i),
          fmt::format(R"({{"include": ["f{0}.json", "f{0}.json"]}})", i - 1));
  }
  EXPECT_THAT(FaultOf(dir_ / "f14.json"), HasSubstr("more than 256"));
  Write("deep0.json", "{}");
  for (int i = 1; i < 20; ++i) {
    Write(fmt::format("deep{}.json", i), fmt::format(R"({{"include": "deep{}.json"}})", i - 1));
  }
  EXPECT_THAT(FaultOf(dir_ / "deep19.json"), HasSubstr("more than 16 deep"));
}

TEST_F(LoaderTest, AWrongIncludeNamesItsLine) {
  EXPECT_THAT(FaultOf(Write("a.json", "{\n\"include\": [\"none.json\"]}")),
              AllOf(HasSubstr("a.json:2: the included file 'none.json' does not exist")));
  EXPECT_THAT(FaultOf(Write("b.json", "{\n\"include\": [\"a.json\", 3]}")),
              HasSubstr("b.json:2: include: expected a path or an array of paths"));
  EXPECT_THAT(FaultOf(dir_ / "absent.json"), HasSubstr("cannot be read"));
  EXPECT_THAT(FaultOf(dir_), HasSubstr("cannot be read"));
}

TEST_F(LoaderTest, TheConfigOfARunIncludesNothingFromOutsideItsFolder) {
  Write("outside.json", R"({"x": 1})");
  Write("run/own.json", R"({"x": 2})");
  const auto load = [this](const std::string& include) {
    return LoadFile(Write("run/config.json", fmt::format(R"({{"include": "{}"}})", include)));
  };
  EXPECT_EQ(load("own.json").Get<int>("x"), 2);
  const auto refusal = [&](const std::string& include) {
    return MessageOf(ErrorCode::kConfig, [&] { load(include); });
  };
  EXPECT_THAT(refusal("../outside.json"),
              AllOf(HasSubstr("config.json:1: the included file '../outside.json' is outside "),
                    HasSubstr("Give your own config another name")));
  EXPECT_THAT(refusal((dir_ / "outside.json").string()), HasSubstr("is outside "));
  fs::create_symlink("../outside.json", dir_ / "run/link.json");
  EXPECT_THAT(refusal("link.json"), HasSubstr("is outside "));
  Write("run/sub/a.json", R"({"include": "../../outside.json"})");
  EXPECT_THAT(refusal("sub/a.json"), HasSubstr("is outside "));
}

TEST_F(LoaderTest, SpecialFilesAreRefusedAtOnce) {
  ASSERT_EQ(::mkfifo((dir_ / "fifo.json").c_str(), 0600), 0);
  EXPECT_THAT(FaultOf(dir_ / "fifo.json"), HasSubstr("found a named pipe (FIFO)"));
  EXPECT_THAT(FaultOf(Write("a.json", R"({"include": "/dev/zero"})")), HasSubstr("found a device"));
}

// Takes time linear in their number: a quadratic merge would take many seconds.
TEST_F(LoaderTest, ManyKeysAreMergedQuicklyAndTooManyRefused) {
  const auto with_keys = [](int n) {
    std::string text = R"({"a": {"first": 1)";
    for (int i = 0; i < n; ++i) text += fmt::format(",\"k{}\":{}", i, i);
    return text + "}}";
  };
  Write("base.json", with_keys(40'000));
  std::string own = with_keys(40'000);
  own.replace(0, 1, R"({"include": "base.json",)");
  const auto begin = std::chrono::steady_clock::now();
  const Config config = LoadFile(Write("own.json", own));
  EXPECT_EQ(config.Sub("a").Get<int>("k39999"), 39'999);
  const std::string unread = MessageOf(ErrorCode::kConfig, [&] { config.RejectUnread(); });
  EXPECT_THAT(unread, HasSubstr("and 39980 more"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_THAT(FaultOf(Write("c.json", with_keys(100'000))), HasSubstr("at most 100000 keys"));
}

TEST_F(LoaderTest, NamesAreFoundInTheConfigFoldersInTheirOrder) {
  Write("task/pusht.json", R"({"env": {"plugin": "pusht"}, "horizon": 8})");
  Write("policy/unet.json", R"({"policy": {"plugin": "unet"}, "horizon": 16})");
  Write("dataset/demo.json", R"({"dataset": {"plugin": "csv"}})");
  const fs::path own = Write("own.json", R"({"horizon": 4, "name": "mine"})");
  Write("user/task/pusht.json", R"({"env": {"plugin": "users_pusht"}})");
  const Config config = LoadConfig({.policy = "unet",
                                    .env = "pusht",
                                    .dataset = "demo",
                                    .config = own,
                                    .config_dirs = {dir_ / "user", dir_}});
  EXPECT_EQ(config.Sub("env").Get<std::string>("plugin"), "users_pusht");
  EXPECT_EQ(config.Sub("policy").Get<std::string>("plugin"), "unet");
  EXPECT_EQ(config.Sub("dataset").Get<std::string>("plugin"), "csv");
  EXPECT_EQ(config.Get<int>("horizon"), 16);
  EXPECT_EQ(config.Get<std::string>("name"), "mine");
}

TEST_F(LoaderTest, AnUnknownNameListsWhatThereIsAndTheNearest) {
  Write("task/pusht.json", "{}");
  Write("task/point_mass.json", "{}");
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [&] { LoadConfig({.env = "psht", .config_dirs = {dir_}}); }),
      AllOf(HasSubstr("--env psht"), HasSubstr("did you mean 'pusht'?"),
            HasSubstr("Available: point_mass, pusht"), HasSubstr((dir_ / "task").string())));
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [&] { LoadConfig({.policy = "x", .config_dirs = {dir_}}); }),
      HasSubstr("Available: none"));
}

TEST_F(LoaderTest, ADatasetPathReplacesTheConfiguredOne) {
  const fs::path data = Write("demos.zarr/.zgroup", "{}").parent_path();
  const fs::path own =
      Write("own.json", R"({"dataset": {"plugin": "zarr_replay", "params": {"path": "other"}}})");
  const Config dataset = DatasetOf(data, own);
  EXPECT_EQ(dataset.Get<std::string>("plugin"), "zarr_replay");
  EXPECT_EQ(dataset.Sub("params").Get<std::string>("path"), data.string());
  EXPECT_EQ(DatasetOf(data).Get<std::string>("plugin"), "zarr_replay")
      << "the config has no other reader";
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { DatasetOf(dir_ / "none.zarr"); }),
              HasSubstr("this path does not exist"));
}

TEST_F(LoaderTest, ACollectedDatasetNeedsNoReaderConfig) {
  const fs::path data = Write("demos.zarr/.zgroup", "{}").parent_path();
  const fs::path own =
      Write("own.json",
            R"({"dataset": {"plugin": "other", "params": {"keys": {"a": 1}}, "val_ratio": 0.5}})");
  const Config dataset =
      LoadConfig(
          {.dataset = data.string(), .is_collected = true, .config = own, .readers = &readers_})
          .Sub("dataset");
  EXPECT_EQ(dataset.Get<std::string>("plugin"), "zarr_replay");
  EXPECT_THAT(dataset.Sub("params").Keys(), testing::ElementsAre("path"));
  EXPECT_EQ(dataset.Get<double>("val_ratio"), 0.5);
}

TEST_F(LoaderTest, TheFormatOnDiskChoosesTheReader) {
  const fs::path lerobot = Write("recordings/meta/info.json", "{}").parent_path().parent_path();
  const fs::path zarr = Write("demos.zarr/.zgroup", "{}").parent_path();
  const auto load = [this](const fs::path& data, const std::string& plugin) {
    const fs::path own = Write("own.json", R"({"dataset": {"plugin": ")" + plugin +
                                               R"(", "params": {"keys": {"a": 1}}}})");
    return DatasetOf(data, own);
  };
  EXPECT_EQ(DatasetOf(lerobot).Get<std::string>("plugin"), "lerobot");
  // keys for the other format are dropped
  EXPECT_EQ(load(lerobot, "zarr_replay").Get<std::string>("plugin"), "lerobot");
  EXPECT_THAT(load(lerobot, "zarr_replay").Sub("params").Keys(), testing::ElementsAre("path"));
  EXPECT_EQ(load(zarr, "lerobot").Get<std::string>("plugin"), "zarr_replay");
  EXPECT_THAT(load(zarr, "lerobot").Sub("params").Keys(), testing::ElementsAre("path"));
  // others stay
  EXPECT_THAT(load(lerobot, "lerobot").Sub("params").Keys(), testing::ElementsAre("keys", "path"));
  EXPECT_EQ(load(lerobot, "mine").Get<std::string>("plugin"), "mine");
}

// A task that names its own dataset, and what is said about that one alone.
constexpr const char* kTaskWithData = R"({"env": {"plugin": "pusht"}, "dataset": {
  "plugin": "zarr_replay", "val_ratio": 0.02, "seed": 7, "max_train_episodes": 90,
  "params": {"path": "data/task.zarr", "fps": 10, "keys": {"image": {"array": "data/img"}}}}})";

TEST_F(LoaderTest, AnotherDataSetLeavesOutWhatTheTaskSaysOfItsOwn) {
  Write("task/pusht.json", kTaskWithData);
  const fs::path data = Write("mine.zarr/.zgroup", "{}").parent_path();
  const auto document = LoadConfigDocument(
      {.env = "pusht", .dataset = data.string(), .config_dirs = {dir_}, .readers = &readers_});
  const Config dataset = Config(document).Sub("dataset");
  EXPECT_THAT(dataset.Keys(), testing::ElementsAre("params", "plugin", "val_ratio"));
  EXPECT_THAT(dataset.Sub("params").Keys(), testing::ElementsAre("path"));
  EXPECT_THAT(document->notes(),
              testing::ElementsAre(AllOf(
                  HasSubstr("pusht.json says about data/task.zarr: dataset.max_train_episodes, "
                            "dataset.params.fps, dataset.params.keys, dataset.seed."),
                  HasSubstr("give dataset.params.path="))));
}

TEST_F(LoaderTest, TheSameDataSetInAnotherFolderKeepsWhatTheTaskSays) {
  Write("task/pusht.json", kTaskWithData);
  const fs::path data = Write("elsewhere/task.zarr/.zgroup", "{}").parent_path();
  const auto document = LoadConfigDocument({.env = "pusht",
                                            .dataset = data.string() + "/",
                                            .config_dirs = {dir_},
                                            .readers = &readers_});
  EXPECT_EQ(Config(document).Sub("dataset").Get<int>("max_train_episodes"), 90);
  EXPECT_TRUE(Config(document).Sub("dataset").Sub("params").Has("keys"));
  EXPECT_TRUE(document->notes().empty());
}

TEST_F(LoaderTest, WhatTheUsersFileSaysOfAnyDataSetStaysForAnotherOne) {
  Write("task/pusht.json", kTaskWithData);
  const fs::path own = Write("own.json", R"({"include": "task/pusht.json", "dataset": {
    "max_train_episodes": 5, "params": {"keys": {"image": {"type": "rgb"}, "empty": {}}}}})");
  const fs::path data = Write("mine.zarr/.zgroup", "{}").parent_path();
  const Config dataset = DatasetOf(data, own);
  EXPECT_EQ(dataset.Get<int>("max_train_episodes"), 5);
  const Config keys = dataset.Sub("params").Sub("keys");
  EXPECT_THAT(keys.Keys(), testing::ElementsAre("empty", "image"));
  EXPECT_THAT(keys.Sub("image").Keys(), testing::ElementsAre("type"));
}

TEST_F(LoaderTest, ParamsOfAnotherPluginStayBecauseOnlyItKnowsThem) {
  const fs::path own = Write("own.json", R"({"dataset": {"plugin": "mine", "seed": 3,
    "params": {"path": "a.bin", "obs": ["x"]}}})");
  const fs::path data = Write("b.bin", "");
  const Config dataset = DatasetOf(data, own);
  EXPECT_EQ(dataset.Get<std::string>("plugin"), "mine");
  EXPECT_THAT(dataset.Sub("params").Keys(), testing::ElementsAre("obs", "path"));
  EXPECT_FALSE(dataset.Has("seed"));
}

TEST_F(LoaderTest, AFileWithAnotherDatasetPluginReplacesWhatIsForTheFirst) {
  Write("task/pusht.json", kTaskWithData);
  const std::string section = R"("dataset": {"plugin": "lerobot",
    "params": {"path": "x", "keys": {"image": {"feature": "observation.image"}}}}})";
  const fs::path with_include = Write("a.json", R"({"include": "task/pusht.json", )" + section);
  const fs::path alone = Write("b.json", "{" + section);
  for (const Config& config :
       {LoadConfig({.config = with_include}),
        LoadConfig({.env = "pusht", .config = alone, .config_dirs = {dir_}})}) {
    const Config dataset = config.Sub("dataset");
    EXPECT_EQ(dataset.Get<std::string>("plugin"), "lerobot");
    EXPECT_THAT(dataset.Keys(), testing::ElementsAre("params", "plugin", "val_ratio"));
    EXPECT_THAT(dataset.Sub("params").Keys(), testing::ElementsAre("keys", "path"));
    EXPECT_THAT(dataset.Sub("params").Sub("keys").Sub("image").Keys(),
                testing::ElementsAre("feature"));
    EXPECT_EQ(config.Sub("env").Get<std::string>("plugin"), "pusht");
  }
}

TEST_F(LoaderTest, ObsChoosesAmongTheConfigsOfAnEnv) {
  Write("task/arm.json", R"({"name": "arm", "env": {"params": {"obs": "state"}}})");
  Write("task/arm_rgbd.json", R"({"name": "arm_rgbd"})");
  Write("task/push.json", R"({"name": "push", "env": {"params": {"obs": ["a", "b"]}}})");
  const auto name = [this](const std::string& env, const std::string& obs) {
    return LoadConfig({.env = env, .obs = obs, .config_dirs = {dir_}}).Get<std::string>("name");
  };
  EXPECT_EQ(name("arm", "rgbd"), "arm_rgbd");
  EXPECT_EQ(name("arm", "state"), "arm");
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { name("arm", "smell"); }),
              AllOf(HasSubstr("no task config arm_smell.json"), HasSubstr("has: state, rgbd")));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { name("push", "image"); }),
              HasSubstr("has: none"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { LoadConfig({.obs = "rgbd"}); }),
              HasSubstr("give --env too"));
}

TEST_F(LoaderTest, TaskIsAParamOfEnvsWithSeveral) {
  Write("task/arm.json", R"({"env": {"plugin": "arm", "params": {"task": "lift"}}})");
  Write("task/push.json", R"({"env": {"plugin": "push"}})");
  const auto task = [this](const std::string& env) {
    const Config config = LoadConfig({.env = env, .task = "weigh", .config_dirs = {dir_}});
    return config.Sub("env").Sub("params").Get<std::string>("task");
  };
  EXPECT_EQ(task("arm"), "weigh");
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { task("push"); }),
              AllOf(HasSubstr("--task weigh"), HasSubstr("a single task"), HasSubstr("push.json")));
}

TEST_F(LoaderTest, OverridesAreJsonOrElseText) {
  const fs::path file =
      Write("a.json", R"({"training": {"lr": 0.1, "n": 1, "device": "cpu"}, "name": "x"})");
  const Config config =
      LoadFile(file, {"training.lr=3", "training.n=7", "training.device=cuda:0", "name=12",
                      "new.list=[1, 2]", "new.text=plain", "name=\"quoted=1\""});
  EXPECT_EQ(config.Sub("training").Get<double>("lr"), 3.0);
  EXPECT_EQ(config.Sub("training").Get<int>("n"), 7);
  EXPECT_EQ(config.Sub("training").Get<std::string>("device"), "cuda:0");
  EXPECT_EQ(config.Get<std::string>("name"), "quoted=1");
  EXPECT_THAT(config.Sub("new").Get<std::vector<std::int64_t>>("list"), testing::ElementsAre(1, 2));
  EXPECT_EQ(config.Sub("new").Get<std::string>("text"), "plain");
  EXPECT_EQ(LoadFile(file, {"name=12"}).Get<std::string>("name"), "12");
}

TEST_F(LoaderTest, WhatAnOverrideSetsInsideAnObjectIsNotBlamedOnTheFile) {
  const fs::path file = Write("a.json", "{\n\"policy\": {\"dims\": 3, \"other\": 4}}");
  const Config policy = LoadFile(file, {R"(policy={"dims": 5})"}).Sub("policy");
  EXPECT_THAT(policy.Where("dims"), HasSubstr("command line: policy={…}"));
  EXPECT_THAT(policy.Where("other"), HasSubstr("a.json:2"));
}

TEST_F(LoaderTest, AnOverrideMayMakeANumberOfASwitchAndBack) {
  const fs::path file = Write("a.json", R"({"realtime": false, "factor": 2, "n": 1})");
  EXPECT_EQ(LoadFile(file, {"realtime=1.5"}).Get<double>("realtime"), 1.5);
  EXPECT_TRUE(LoadFile(file, {"factor=true"}).Get<bool>("factor"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { LoadFile(file, {"n=true"}).Get<int>("n"); }),
              HasSubstr("command line: n=true"))
      << "what reads the key refuses what it cannot use";
}

TEST_F(LoaderTest, OverridesKeepTheTypeAndNullGoesEitherWay) {
  const fs::path file = Write("a.json", "{\n\"lr\": 0.1,\n\"limit\": null, \"env\": {\"x\": 1}}");
  EXPECT_THAT(FaultOf(file, {"lr=fast"}),
              AllOf(HasSubstr("command line: lr=fast: expected the type of the number 0.1"),
                    HasSubstr("a.json:2"), HasSubstr("found the string \"fast\"")));
  EXPECT_THAT(FaultOf(file, {"env=3"}), HasSubstr("the type of an object"));
  EXPECT_THAT(FaultOf(file, {"lr.x=3"}), HasSubstr("'lr' is not an object but the number 0.1"));
  EXPECT_EQ(LoadFile(file, {"lr=null"}).GetOptional<double>("lr"), std::nullopt);
  EXPECT_EQ(LoadFile(file, {"limit=2"}).GetOptional<int>("limit"), 2);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { LoadFile(file, {"lr"}); }),
              HasSubstr("expected key.key=value"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { LoadFile(file, {"a..b=1"}); }),
              HasSubstr("an empty key"));
  EXPECT_THAT(FaultOf(file, {"new={\"a\": 1, \"a\": 2}"}), HasSubstr("a second time"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { LoadFile(file, {"new=\xff"}); }),
              HasSubstr("UTF-8"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { LoadFile(file, {"n\xff=1"}); }),
              HasSubstr("UTF-8"));
}

TEST_F(LoaderTest, AnOverrideThatNobodyReadsIsNamedWithTheNearestKey) {
  const Config config =
      LoadFile(Write("a.json", R"({"training": {"lr": 0.1}})"), {"training.num_epoch=3"});
  config.Sub("training").Get<double>("lr");
  config.Sub("training").Get("num_epochs", 10);
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { config.RejectUnread(); }),
              HasSubstr("command line: training.num_epoch=3: training.num_epoch (did you mean "
                        "'num_epochs'?)"));
}

TEST_F(LoaderTest, KeysOfTheCommandLineAreToldFromThoseOfFiles) {
  const fs::path file =
      Write("run.json", R"({"policy": {"params": {"width": 4, "depth": 2}}, "seed": 1})");
  const auto document =
      LoadConfigDocument({.config = file, .overrides = {"policy.params.widht=3", "sed=2"}});
  Config(document).Get<int>("seed");
  const auto of_command_line = [](const std::string&, bool is_override) { return is_override; };
  const auto unread = document->DescribeUnread("", of_command_line);
  ASSERT_EQ(unread.size(), 2U) << fmt::format("{}", fmt::join(unread, "; "));
  EXPECT_THAT(unread[0], HasSubstr("command line: policy.params.widht=3: policy.params.widht"));
  EXPECT_THAT(unread[1], HasSubstr("sed (did you mean 'seed'?)"));
  EXPECT_TRUE(document->HasOverride("/policy"));
  EXPECT_FALSE(document->HasOverride("/seed"));
  EXPECT_TRUE(document->IsGiven("/sed"));
  EXPECT_TRUE(document->IsGiven("/seed"));
  Config(document).Get("horizon", 16);
  EXPECT_FALSE(document->IsGiven("/horizon"));  // a default
  EXPECT_EQ(document->DescribeUnread("/policy/params").size(), 3U);
}

TEST(Name, IsLettersDigitsAndThreeSigns) {
  const std::vector<std::string> good = {"a", "pusht_image", "Kuavo-4.2", std::string(100, 'x')};
  for (const std::string& name : good) EXPECT_EQ(RequireName(name, "here"), name);
  const std::vector<std::string> bad = {
      "", ".", "..", ".hidden", "a/b", "../../../x", "a b", "ä", "a\n", std::string(101, 'x')};
  for (const std::string& name : bad) {
    EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { RequireName(name, "a.json:3: name"); }),
                AllOf(HasSubstr("a.json:3: name: expected a name"), HasSubstr("letters, digits")))
        << name;
  }
}

TEST_F(LoaderTest, MessagesDoNotSteerTheTerminal) {
  const Config config = LoadFile(Write("a.json", "{}"), {"name=\x1b[31mred"});
  const std::string text = MessageOf(ErrorCode::kConfig, [&] {
    RequireName(config.Get<std::string>("name"), config.Where("name"));
  });
  EXPECT_THAT(text, HasSubstr("\\x1b[31mred"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(LoaderTest, ARunOfAnEarlierVersionLoadsWithoutItsRetiredKeys) {
  const std::string text = R"({"training": {"num_epochs": 3, "early_stop": {"patience": 2}}})";
  EXPECT_FALSE(LoadFile(Write("run/config.json", text)).Sub("training").Has("early_stop"));
  EXPECT_TRUE(LoadFile(Write("mine.json", text)).Sub("training").Has("early_stop"));
}

TEST_F(LoaderTest, AnotherChoiceThanThatOfARunLeavesOutTheKeysOfItsOwn) {
  const std::string text = R"({"training": {"lr_scheduler": "polynomial", "lr_power": 1.0,
      "lr_end": 1e-7, "lr_num_cycles": 0.5, "lr_warmup_steps": 3},
      "optimizer": {"name": "sgd", "momentum": 0.9, "nesterov": false, "lr": 0.1}})";
  const fs::path run = Write("run/config.json", text);
  const Config other = LoadFile(run, {"training.lr_end=1e-3", "optimizer.name=adam",
                                      "training.lr_scheduler=cosine_with_restarts"});
  EXPECT_THAT(other.Sub("training").Keys(),
              testing::UnorderedElementsAre("lr_scheduler", "lr_end", "lr_warmup_steps"))
      << "the command line keeps its keys";
  EXPECT_THAT(other.Sub("optimizer").Keys(), testing::UnorderedElementsAre("name", "lr"));

  const Config same = LoadFile(run, {"training.lr_scheduler=polynomial", "training.lr_power=2"});
  EXPECT_TRUE(same.Sub("training").Has("lr_end"));
  EXPECT_TRUE(same.Sub("optimizer").Has("momentum"));
  const Config own = LoadFile(Write("mine.json", text), {"training.lr_scheduler=cosine"});
  EXPECT_TRUE(own.Sub("training").Has("lr_power")) << "written by hand";
}

TEST_F(LoaderTest, TheResolvedConfigLoadsToItself) {
  Write("base.json", R"({"lr": 1e-4, "seed": 18446744073709551615, "third": 0.1})");
  const Config config =
      LoadFile(Write("a.json", R"({"include": "base.json", "s": "\u00e4\n\""})"), {"training.n=1"});
  config.Sub("ema").Get("power", 2.0 / 3.0);
  config.GetOptional<int>("none");
  WriteResolvedConfig(config, dir_ / "config.json");
  const Config resolved = LoadFile(dir_ / "config.json");
  EXPECT_EQ(resolved.ToJson(), config.ToJson());
  EXPECT_EQ(resolved.Sub("ema").Get<double>("power"), 2.0 / 3.0);
  EXPECT_THAT(
      MessageOf(ErrorCode::kIo, [&] { WriteResolvedConfig(config, dir_ / "no/such/folder.json"); }),
      HasSubstr("no/such/folder.json"));
}

}  // namespace
}  // namespace dp_bench::config
