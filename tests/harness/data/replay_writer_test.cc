// Datasets on disk: what Python reads, what a kill leaves, and what is refused.
#include "data/replay_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const json kOrigin = {{"env", {{"plugin", "toy"}, {"params", {{"task", "a"}}}}}};

// Numbers, small images, and images with one chunk each.
std::vector<KeySpec> Keys() {
  return {{.name = "depth", .type = KeyType::kDepth, .shape = {1, 6, 4}, .dtype = DType::kUInt16},
          {.name = "large", .type = KeyType::kRgb, .shape = {3, 400, 500}, .dtype = DType::kUInt8},
          {.name = "observation.state", .shape = {5}},
          {.name = "rgb", .type = KeyType::kRgb, .shape = {3, 4, 6}, .dtype = DType::kUInt8},
          {.name = "action", .shape = {2}}};
}

// Bytes that count up from a number of the step.
ReplayEpisode Episode(int first_step, int n_steps) {
  const std::vector<KeySpec> keys = Keys();
  ReplayEpisode episode(keys);
  for (int step = first_step; step < first_step + n_steps; ++step) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::span<const std::byte>> values;
    for (const KeySpec& key : keys) memory.emplace_back(key.ByteSize());
    for (std::vector<std::byte>& bytes : memory) {
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>((i / 7 + static_cast<std::size_t>(step)) % 64);
      }
      values.emplace_back(bytes);
    }
    episode.Append(values);
  }
  return episode;
}

// Episodes of 3, 4, 5, ... steps.
void AppendEpisodes(ReplayWriter& writer, int n) {
  for (int i = 0; i < n; ++i) {
    const int n_steps = 3 + static_cast<int>(writer.n_episodes());
    writer.Append(Episode(static_cast<int>(writer.n_steps()), n_steps));
  }
}

json Attributes(const ReplayWriter& writer) { return {{"n", writer.n_episodes()}, {"fps", 10}}; }

void WriteAtOnce(const fs::path& folder, int n_episodes) {
  ReplayWriter writer(folder, Keys(), kOrigin);
  AppendEpisodes(writer, n_episodes);
  writer.Commit(Attributes(writer), /*is_complete=*/true);
}

TEST(ReplayWriter, BytesDoNotDependOnCommitsNorOnInterruptions) {
  const ScratchFolder scratch;
  WriteAtOnce(scratch.path() / "whole", 6);
  const auto whole = FilesBelow(scratch.path() / "whole");
  ASSERT_TRUE(whole.contains("data/large/32.0.0.0"));
  ASSERT_TRUE(whole.contains("meta/episode_ends/0"));

  for (const int n_first : {0, 1, 4, 6}) {
    const fs::path folder = scratch.path() / fmt::format("broken{}", n_first);
    {
      ReplayWriter writer(folder, Keys(), kOrigin);
      AppendEpisodes(writer, n_first);
      writer.Commit(Attributes(writer), false);
      AppendEpisodes(writer, 2);  // never committed
    }
    std::ofstream(folder / "data/action/0.0.tmp.0123456789abcdef") << "of a killed process";
    {
      ReplayWriter writer(folder, Keys(), kOrigin);
      EXPECT_EQ(writer.n_episodes(), n_first);
      AppendEpisodes(writer, 6 - n_first);
      writer.Commit(Attributes(writer), true);
    }
    EXPECT_EQ(DifferingFiles(whole, FilesBelow(folder)), "") << n_first;
  }
}

// A kill between two files of a Commit: every prefix of its replacements, in order.
TEST(ReplayWriter, AKillWithinACommitKeepsTheEpisodesOfTheLastOne) {
  const ScratchFolder scratch;
  WriteAtOnce(scratch.path() / "whole", 4);
  const auto whole = FilesBelow(scratch.path() / "whole");
  const std::vector<std::string> commit_order = {"data/action/.zarray", "data/rgb/.zarray",
                                                 ".zattrs", "meta/episode_ends/0"};
  for (std::size_t n_done = 0; n_done <= commit_order.size(); ++n_done) {
    const fs::path folder = scratch.path() / fmt::format("killed{}", n_done);
    {
      ReplayWriter writer(folder, Keys(), kOrigin);
      AppendEpisodes(writer, 2);
      writer.Commit(Attributes(writer), false);
    }
    for (const auto& [name, content] : whole) {
      if (name.find("/.z") == std::string::npos && name.starts_with("data/")) {
        std::ofstream(folder / name, std::ios::binary) << content;  // chunks come first
      }
    }
    for (std::size_t i = 0; i < n_done; ++i) {
      core::WriteFileAtomically(folder / commit_order[i], whole.at(commit_order[i]));
    }
    {
      ReplayWriter writer(folder, Keys(), kOrigin);
      EXPECT_EQ(writer.n_episodes(), 2);
      EXPECT_EQ(writer.n_steps(), 7);
      AppendEpisodes(writer, 2);
      writer.Commit(Attributes(writer), true);
    }
    EXPECT_EQ(DifferingFiles(whole, FilesBelow(folder)), "") << n_done;
  }
}

TEST(ReplayWriter, WritesTheSameFromEpisodesThatWereArrays) {
  const ScratchFolder scratch;
  WriteAtOnce(scratch.path() / "whole", 1);
  const ArrayMap arrays = Episode(0, 3).ToArrays();
  {
    ReplayWriter writer(scratch.path() / "again", Keys(), kOrigin);
    writer.Append(ReplayEpisode::FromArrays(Keys(), arrays, "a file"));
    writer.Commit(Attributes(writer), true);
  }
  EXPECT_EQ(
      DifferingFiles(FilesBelow(scratch.path() / "whole"), FilesBelow(scratch.path() / "again")),
      "");
}

TEST(ReplayWriter, RefusesArraysThatAreNoEpisode) {
  const auto message = [](const char* name, const Array& array) {
    ArrayMap arrays = Episode(0, 3).ToArrays();
    arrays.erase(name);
    if (array.size() > 0) arrays.emplace(name, array);
    return MessageOf(ErrorCode::kData, [&] { ReplayEpisode::FromArrays(Keys(), arrays, "x"); });
  };
  EXPECT_EQ(message("bytes.rgb", {}), "x: expected an array 'bytes.rgb' of uint8");
  EXPECT_EQ(message("sizes.large", {}), "x: expected an array 'sizes.large' of int64");
  EXPECT_EQ(message("bytes.action", Array(DType::kFloat32, {6})),
            "x: expected an array 'bytes.action' of uint8");
  const std::string of_action = "x: the steps of 'action' are incomplete";
  EXPECT_EQ(message("bytes.action", Array(DType::kUInt8, {23})), of_action);
  EXPECT_EQ(message("bytes.action", Array(DType::kUInt8, {16})), of_action) << "2 steps of 3";
  const std::string of_large = "x: the steps of 'large' are incomplete";
  EXPECT_EQ(message("sizes.large", Array(DType::kInt64, {3})), of_large) << "no bytes";
  Array sizes(DType::kInt64, {3});
  std::ranges::fill(sizes.as<std::int64_t>(), -1);
  EXPECT_EQ(message("sizes.large", sizes), of_large);
}

TEST(ReplayWriter, SaysWhetherItIsComplete) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "a";
  WriteAtOnce(folder, 1);
  EXPECT_EQ(ReadReplayAttributes(folder)["complete"], true);
  ReplayWriter writer(folder, Keys(), kOrigin);
  EXPECT_EQ(ReadReplayAttributes(folder)["complete"], false) << "it goes on";
  EXPECT_EQ(writer.attributes()["n"], 1);
}

TEST(ReplayWriter, RefusesFoldersOfOthersAndLeavesThemAsTheyAre) {
  const ScratchFolder scratch;
  WriteAtOnce(scratch.path() / "a", 1);
  const auto before = FilesBelow(scratch.path() / "a");
  json other = kOrigin;
  other["env"]["params"]["task"] = "b";
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { ReplayWriter(scratch.path() / "a", Keys(), other); }),
      HasSubstr(R"(origin/env/params/task is "a" there, "b" here)"));
  EXPECT_EQ(DifferingFiles(before, FilesBelow(scratch.path() / "a")), "");

  fs::create_directories(scratch.path() / "photos");
  std::ofstream(scratch.path() / "photos" / "cat.png") << "x";
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] { ReplayWriter(scratch.path() / "photos", Keys(), kOrigin); }),
              HasSubstr("is not a dataset that dp_bench collected"));
  EXPECT_EQ(FilesBelow(scratch.path() / "photos").size(), 1U);
}

TEST(SeedsOfEpisodes, AreThoseOfTheEnvsTask) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "a.zarr";
  ReplayWriter writer(folder, Keys(), kOrigin);
  AppendEpisodes(writer, 2);
  writer.Commit(RolloutAttributes(10.0, writer.n_steps(), {{"seed", {100000, 100003}}}, {}), true);
  json env = kOrigin["env"];
  EXPECT_THAT(SeedsOfEpisodes(folder, env), ElementsAre(100000U, 100003U));
  env["params"]["obs"] = "images";  // the same starts
  EXPECT_THAT(SeedsOfEpisodes(folder, env), ElementsAre(100000U, 100003U));
  env["params"]["task"] = "b";
  EXPECT_THAT(SeedsOfEpisodes(folder, env), IsEmpty());
  EXPECT_THAT(SeedsOfEpisodes(folder, {{"plugin", "other"}, {"params", {{"task", "a"}}}}),
              IsEmpty());
  EXPECT_THAT(SeedsOfEpisodes(folder, nullptr), IsEmpty());
}

TEST(SeedsOfEpisodes, OfOtherFormatsAreInTheFileBesideThem) {
  const ScratchFolder scratch;
  const fs::path dataset = scratch.path() / "a.hdf5";
  const auto found = [&](const json& attributes) {
    core::WriteFileAtomically(core::Beside(dataset, kAttributesBeside), attributes.dump());
    return SeedsOfEpisodes(dataset, kOrigin["env"]);
  };
  EXPECT_THAT(SeedsOfEpisodes(dataset, kOrigin["env"]), IsEmpty());
  EXPECT_THAT(found({{"origin", kOrigin}, {"episodes", {{"seed", {7}}}}}), ElementsAre(7U));
  EXPECT_THAT(found({{"origin", {{"source", "b.zarr"}}}}), IsEmpty());
  EXPECT_THAT(found({{"origin", kOrigin}, {"episodes", {{"seed", {7, "x"}}}}}), IsEmpty());
  EXPECT_THAT(found({{"origin", kOrigin}, {"episodes", 3}}), IsEmpty());
}

TEST(ReplayWriter, OneProcessWritesAFolder) {
  const ScratchFolder scratch;
  const ReplayWriter writer(scratch.path() / "a", Keys(), kOrigin);
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { ReplayWriter(scratch.path() / "a", Keys(), kOrigin); }),
      HasSubstr("another process writes"));
}

TEST(ReplayWriter, RefusesKeysThatCannotBeStored) {
  const auto refusal = [](const KeySpec& key) {
    return MessageOf(ErrorCode::kShape, [&key] { ReplayEpisode(std::vector<KeySpec>{key}); });
  };
  EXPECT_THAT(refusal({.name = "d", .type = KeyType::kDepth, .shape = {1, 2, 2}}),
              HasSubstr("'d' (depth float32)"));
  EXPECT_THAT(refusal({.name = "../x", .shape = {2}}), HasSubstr("'../x'"));
}

TEST(ReplayWriter, PythonsZarrReadsWhatItWrites) {
  const fs::path python = fs::path(DPB_SOURCE_DIR) / ".venv/bin/python";
  const ScratchFolder scratch;
  WriteAtOnce(scratch.path() / "ours.zarr", 3);  // 3 + 4 + 5 steps
  core::WriteFileAtomically(
      scratch.path() / "read.py",
      "import sys, json, zarr, numpy as np\n"
      "root = zarr.open_group(sys.argv[1], mode='r')\n"
      "n = int(root['meta/episode_ends'][-1])\n"
      "assert list(root['meta/episode_ends'][:]) == [3, 7, 12], root['meta/episode_ends'][:]\n"
      "assert root.attrs['complete'] is True and root.attrs['origin']['env']['plugin'] == 'toy'\n"
      "wanted = {'action': ('<f4', (12, 2)), 'observation.state': ('<f4', (12, 5)),\n"
      "          'rgb': ('|u1', (12, 4, 6, 3)), 'large': ('|u1', (12, 400, 500, 3)),\n"
      "          'depth': ('<u2', (12, 6, 4, 1))}\n"
      "found = {k: (a.dtype.str, a.shape) for k, a in root['data'].arrays()}\n"
      "assert found == wanted, found\n"
      "for name, array in root['data'].arrays():\n"
      "    for step in range(n):\n"
      "        value = np.frombuffer(array[step].tobytes(), np.uint8)\n"
      "        count = (np.arange(value.size) // 7 + step) % 64\n"
      "        assert (value == count).all(), (name, step)\n");
  const std::string command =
      fmt::format("{} {} {}", python.string(), (scratch.path() / "read.py").string(),
                  (scratch.path() / "ours.zarr").string());
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace dp_bench::data
