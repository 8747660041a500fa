// Three episodes that tests write with a DatasetWriter, and expect of the reader.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/dataset_writer.h"
#include "dp_bench/random.h"
#include "support/read_all.h"

namespace dp_bench {

inline constexpr std::array kEpisodeLengths = {3, 1, 6};

/// A value of key `i` that depends on the key and the step only.
inline std::vector<std::byte> StoredValue(const DatasetSpec& spec, std::size_t i, int step) {
  const KeySpec& key = spec.keys[i];
  RandomStream random(static_cast<std::uint64_t>(step), StreamId::kAugment, i);
  std::vector<std::byte> bytes(key.ByteSize());
  if (key.dtype == DType::kFloat32) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      const float value = random.Normal();
      std::memcpy(&bytes[at], &value, sizeof(value));
    }
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.NextU32() & 0xffU);
  return bytes;
}

inline void AppendStep(DatasetWriter& writer, const DatasetSpec& spec, int step) {
  std::vector<std::vector<std::byte>> values;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) values.push_back(StoredValue(spec, i, step));
  writer.Append(std::vector<std::span<const std::byte>>(values.begin(), values.end()));
}

/// Appends those of the first `n` episodes that are missing. The second one pushes, others lift.
inline void AppendEpisodes(DatasetWriter& writer, const DatasetSpec& spec,
                           std::int64_t n = std::ssize(kEpisodeLengths)) {
  int step = 0;
  for (std::int64_t episode = 0; episode < n; ++episode) {
    const int length = kEpisodeLengths[static_cast<std::size_t>(episode)];
    const bool is_missing = episode >= writer.n_episodes();
    if (is_missing)
      writer.BeginEpisode({.n_steps = length, .task = episode == 1 ? "push" : "lift"});
    for (int i = 0; i < length; ++i, ++step) {
      if (is_missing) AppendStep(writer, spec, step);
    }
  }
}

inline void ExpectThreeEpisodes(const Dataset& dataset, const DatasetSpec& spec) {
  ASSERT_EQ(dataset.spec().keys, spec.keys);
  EXPECT_EQ(dataset.spec().fps, spec.fps);
  EXPECT_THAT(dataset.episode_ends(), ::testing::ElementsAre(3, 4, 10));
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    for (int step = 0; step < 10; ++step) {
      EXPECT_EQ(ReadSteps(dataset, spec.keys[i].name, step, step + 1), StoredValue(spec, i, step))
          << spec.keys[i].name << " " << step;
    }
  }
}

}  // namespace dp_bench
