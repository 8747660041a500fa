// Which episodes a shard runs, and what its engine says.
#include "run/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

using testing::HasSubstr;

Getenv Environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

SeedShard Auto(std::map<std::string, std::string> variables) {
  return ReadShard("auto", Environment(std::move(variables)));
}

TEST(Shards, AreWrittenAsAFraction) {
  EXPECT_EQ(ReadShard("0/1"), (SeedShard{0, 1}));
  EXPECT_EQ(ReadShard("7/50"), (SeedShard{7, 50}));
  for (const char* text : {"", "3", "3/", "/3", "3/3", "-1/3", "1/0", "a/b", "1/2/3", "1.0/2"}) {
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { ReadShard(text); }),
                HasSubstr("expected i/n with i from 0 to n - 1"))
        << text;
  }
}

TEST(Shards, AreWhatTheirEngineSays) {
  EXPECT_EQ(Auto({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
            (SeedShard{2, 4}));
  EXPECT_EQ(Auto({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), (SeedShard{0, 2}));
  // srun with pmi2 in a task of an array
  EXPECT_EQ(Auto({{"PMI_RANK", "0"},
                  {"PMI_SIZE", "1"},
                  {"SLURM_ARRAY_TASK_ID", "3"},
                  {"SLURM_ARRAY_TASK_COUNT", "50"}}),
            (SeedShard{3, 50}));
  EXPECT_EQ(Auto({{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_ARRAY_TASK_COUNT", "8"}}),
            (SeedShard{3, 8}));
  EXPECT_EQ(Auto({{"SLURM_ARRAY_TASK_ID", "8"},
                  {"SLURM_ARRAY_TASK_MIN", "1"},
                  {"SLURM_ARRAY_TASK_COUNT", "8"}}),
            (SeedShard{7, 8}));
  EXPECT_EQ(Auto({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}), (SeedShard{1, 2}));
  EXPECT_EQ(Auto({{"JOB_COMPLETION_INDEX", "4"}, {"JOB_COMPLETIONS", "5"}}), (SeedShard{4, 5}));
  EXPECT_EQ(Auto({{"RANK", "1"}, {"WORLD_SIZE", "3"}}), (SeedShard{1, 3}));
}

// A task of an array that mpirun started is a rank of mpirun.
TEST(Shards, OfSeveralEnginesTheInnermostCounts) {
  EXPECT_EQ(Auto({{"SLURM_ARRAY_TASK_ID", "3"},
                  {"SLURM_ARRAY_TASK_COUNT", "8"},
                  {"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "2"}}),
            (SeedShard{1, 2}));
}

TEST(Shards, SayWhatTheirEngineLacks) {
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [] { Auto({}); }),
              HasSubstr("OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_ARRAY_TASK_ID"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [] {
                          Auto({{"JOB_COMPLETION_INDEX", "4"}});
                        }),
              HasSubstr("JOB_COMPLETIONS, found none"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [] {
                          Auto({{"RANK", "x"}, {"WORLD_SIZE", "3"}});
                        }),
              HasSubstr("RANK, found 'x'"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [] {
                          Auto({{"RANK", "3"}, {"WORLD_SIZE", "3"}});
                        }),
              HasSubstr("say part 3 of 3, expected 0 to 2"));
}

TEST(Shards, TogetherHaveEachEpisodeOnce) {
  for (const int n : {1, 2, 3, 7, 50, 120}) {
    std::vector<int> all;
    std::size_t most = 0;
    std::size_t fewest = 1000;
    for (int i = 0; i < n; ++i) {
      const std::vector<int> own = EpisodesOf({i, n}, 100);
      EXPECT_TRUE(std::ranges::is_sorted(own));
      EXPECT_EQ(CountOf({i, n}, 100), static_cast<int>(own.size()));
      most = std::max(most, own.size());
      fewest = std::min(fewest, own.size());
      all.insert(all.end(), own.begin(), own.end());
    }
    std::ranges::sort(all);
    std::vector<int> wanted(100);
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_EQ(all, wanted) << n;
    EXPECT_LE(most - fewest, 1U);
  }
}

// With index % n, the first shard of a seed list that goes through ten scenes has only the first.
TEST(Shards, HaveADifficultyThatDoesNotFollowFromTheirNumber) {
  constexpr int kEpisodes = 10000;
  constexpr int kShards = 50;
  const auto difficulty_by = [](const auto& difficulty) {
    std::vector<double> means;
    for (int i = 0; i < kShards; ++i) {
      const std::vector<int> own = EpisodesOf({i, kShards}, kEpisodes);
      double sum = 0.0;
      for (const int episode : own) sum += difficulty(episode);
      means.push_back(sum / static_cast<double>(own.size()));
    }
    return means;
  };
  const auto spread = [](const std::vector<double>& means) {
    return std::ranges::max(means) - std::ranges::min(means);
  };
  // uniform on 0 to 1: a mean of 200 has the standard deviation 0.02
  EXPECT_LT(spread(difficulty_by([](int episode) { return episode % 10 / 9.0; })), 0.13);
  EXPECT_LT(spread(difficulty_by([](int episode) { return episode / 10000.0; })), 0.13);
  const std::vector<double> means = difficulty_by([](int episode) { return episode / 10000.0; });
  double covariance = 0.0;
  double of_means = 0.0;
  double of_numbers = 0.0;
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / kShards;
  for (int i = 0; i < kShards; ++i) {
    const double a = i - (kShards - 1) / 2.0;
    const double b = means[static_cast<std::size_t>(i)] - mean;
    covariance += a * b;
    of_numbers += a * a;
    of_means += b * b;
  }
  EXPECT_LT(std::abs(covariance / std::sqrt(of_means * of_numbers)), 0.28);  // p = 0.05
}

TEST(Shards, AreNotedInTheirFolder) {
  const ScratchFolder scratch;
  EXPECT_FALSE(ShardOf(scratch.path()));
  WriteShard(scratch.path(), {3, 8});
  EXPECT_EQ(ShardOf(scratch.path()), (SeedShard{3, 8}));
  std::ofstream(scratch.path() / "shard.json") << R"({"index": 8, "n": 8})";
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ShardOf(scratch.path()); }),
              HasSubstr("found 8 of 8"));
}

}  // namespace
}  // namespace dp_bench::run
