// The contract of every dataset plugin, ours or foreign. It loads the library through the plugin
// host, as dp_bench does.
//   dataset_conformance --plugin=libdpb_dataset_zarr_replay.so --params=params.json
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance_main.h"
#include "data/loader.h"
#include "data/stats.h"
#include "dp_bench/dataset.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "wrong_calls.h"

namespace dp_bench::conformance {
namespace {

// Large datasets are checked in windows: at both ends and around the ends of the first episodes.
constexpr std::int64_t kWindow = 24;
constexpr std::size_t kMaxWindows = 6;

// The sums of the statistics are computed in another order here.
constexpr double kStatsTolerance = 1e-9;

Config Params() { return Config::FromJson(subject().params.dump(), "params"); }

std::unique_ptr<Dataset> Open() { return Catalogue().Create<Dataset>(Plugin().name, Params()); }

// Without the host's guard, for the suite WrongCalls (wrong_calls.h).
std::unique_ptr<Dataset> OpenBare() {
  return Catalogue().CreateBare<Dataset>(Plugin().name, Params());
}

std::int64_t NumSteps(const Dataset& dataset) {
  const auto& ends = dataset.episode_ends();
  return ends.empty() ? 0 : ends.back();  // EpisodeEndsIncrease fails without episodes
}

std::vector<int> Keys(const Dataset& dataset) {
  std::vector<int> keys(dataset.spec().keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int>(i);
  return keys;
}

const KeySpec& SpecOf(const Dataset& dataset, int key) {
  return dataset.spec().keys[static_cast<std::size_t>(key)];
}

std::vector<std::byte> Read(const Dataset& dataset, int key, std::int64_t begin, std::int64_t end) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin) *
                               SpecOf(dataset, key).ByteSize());
  dataset.Read(key, begin, end, bytes);
  return bytes;
}

struct Window {
  std::int64_t begin;
  std::int64_t end;
};

std::vector<Window> Windows(const Dataset& dataset) {
  const std::int64_t n = NumSteps(dataset);
  std::vector<std::int64_t> starts = {0, std::max<std::int64_t>(0, n - kWindow)};
  for (const std::int64_t end : dataset.episode_ends()) {
    if (starts.size() == kMaxWindows) break;
    starts.push_back(std::max<std::int64_t>(0, end - kWindow / 2));
  }
  std::vector<Window> windows;
  for (const std::int64_t start : starts) windows.push_back({start, std::min(start + kWindow, n)});
  return windows;
}

TEST(DatasetConformance, SpecFitsTogether) {
  const auto dataset = Open();
  const std::vector<KeySpec>& keys = dataset->spec().keys;
  bool has_action = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const KeySpec& key = keys[i];
    if (i > 0) {
      EXPECT_LT(keys[i - 1].name, key.name) << "expected alphabetical order";
    }
    EXPECT_GT(key.NumElements(), 0) << key.name;
    if (key.type == KeyType::kRgb) {
      EXPECT_EQ(key.dtype, DType::kUInt8) << key.name;
    }
    if (key.type != KeyType::kLowDim) {
      EXPECT_EQ(key.shape.size(), 3U) << key.name << ": expected [C, H, W]";
    }
    if (key.name != "action") continue;
    has_action = true;
    EXPECT_EQ(key.type, KeyType::kLowDim);
    EXPECT_EQ(key.shape.size(), 1U) << "expected [Da]";
  }
  EXPECT_TRUE(has_action);
  EXPECT_TRUE(std::isfinite(dataset->spec().fps));
  EXPECT_GE(dataset->spec().fps, 0.0) << "0: unknown";
}

TEST(DatasetConformance, EpisodeEndsIncrease) {
  const auto dataset = Open();
  ASSERT_FALSE(dataset->episode_ends().empty());
  std::int64_t begin = 0;
  for (const std::int64_t end : dataset->episode_ends()) {
    EXPECT_GT(end, begin);
    begin = end;
  }
}

TEST(DatasetConformance, KeyIndexFindsEveryKeyAndNamesThemOtherwise) {
  const auto dataset = Open();
  for (const int key : Keys(*dataset)) {
    EXPECT_EQ(dataset->KeyIndex(SpecOf(*dataset, key).name), key);
  }
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { dataset->KeyIndex("no such key"); }),
              ::testing::HasSubstr("action"));
}

TEST(DatasetConformance, RangesEqualStepsReadOneByOne) {
  const auto dataset = Open();
  for (const int key : Keys(*dataset)) {
    const std::size_t step_bytes = SpecOf(*dataset, key).ByteSize();
    for (const Window& window : Windows(*dataset)) {
      const std::vector<std::byte> whole = Read(*dataset, key, window.begin, window.end);
      for (std::int64_t step = window.begin; step < window.end; ++step) {
        const std::vector<std::byte> one = Read(*dataset, key, step, step + 1);
        const auto offset =
            static_cast<std::ptrdiff_t>(static_cast<std::size_t>(step - window.begin) * step_bytes);
        EXPECT_TRUE(std::equal(one.begin(), one.end(), whole.begin() + offset))
            << SpecOf(*dataset, key).name << " at step " << step;
      }
    }
  }
}

TEST(DatasetConformance, ReadFillsItsBufferAndNothingElse) {
  const auto dataset = Open();
  constexpr std::size_t kCanarySize = 64;
  constexpr std::byte kCanary{0xA5};
  for (const int key : Keys(*dataset)) {
    const std::vector<std::byte> wanted = Read(*dataset, key, 0, 1);
    // two fills: bytes that Read did not write would differ
    for (const std::byte fill : {std::byte{0x00}, std::byte{0xFF}}) {
      std::vector<std::byte> memory(wanted.size() + kCanarySize, fill);
      std::fill(memory.end() - kCanarySize, memory.end(), kCanary);
      dataset->Read(key, 0, 1, {memory.data(), wanted.size()});
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), memory.begin()));
      EXPECT_TRUE(std::all_of(memory.end() - kCanarySize, memory.end(),
                              [](std::byte value) { return value == kCanary; }));
    }
  }
}

TEST(DatasetConformance, ConcurrentReadsEqualSerialOnes) {
  const auto dataset = Open();
  const std::vector<Window> windows = Windows(*dataset);
  const auto read_all = [&dataset, &windows] {
    std::vector<std::vector<std::byte>> all;
    for (const int key : Keys(*dataset)) {
      for (const Window& window : windows) {
        all.push_back(Read(*dataset, key, window.begin, window.end));
      }
    }
    return all;
  };
  const auto wanted = read_all();
  std::vector<std::vector<std::vector<std::byte>>> found(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : found) threads.emplace_back([&result, &read_all] { result = read_all(); });
  }
  for (const auto& result : found) EXPECT_TRUE(result == wanted);
}

TEST(DatasetConformance, TwoInstancesHoldTheSameData) {
  const auto one = Open();
  const auto two = Open();
  ASSERT_EQ(one->spec().keys, two->spec().keys);
  EXPECT_TRUE(std::ranges::equal(one->episode_ends(), two->episode_ends()));
  for (const int key : Keys(*one)) {
    for (const Window& window : Windows(*one)) {
      EXPECT_TRUE(Read(*one, key, window.begin, window.end) ==
                  Read(*two, key, window.begin, window.end));
    }
  }
}

TEST(DatasetConformance, RefusesWrongRangesWithoutACrash) { ExpectWrongCallsRefused(); }

TEST(WrongCalls, RangesOutsideOfTheDataAreRefused) {
  const auto dataset = OpenBare();
  const std::int64_t n = NumSteps(*dataset);
  for (const int key : Keys(*dataset)) {
    std::vector<std::byte> out(2 * SpecOf(*dataset, key).ByteSize());
    const auto read = [&](std::int64_t begin, std::int64_t end) {
      return CodeOf([&] { dataset->Read(key, begin, end, out); });
    };
    EXPECT_EQ(read(n - 1, n + 1), ErrorCode::kData);
    EXPECT_EQ(read(n, n + 2), ErrorCode::kData);
    EXPECT_EQ(read(-1, 1), ErrorCode::kData);
    EXPECT_EQ(read(2, 0), ErrorCode::kData);
  }
}

TEST(DatasetConformance, NumbersAreFinite) {
  const auto dataset = Open();
  for (const int key : Keys(*dataset)) {
    const KeySpec& spec = SpecOf(*dataset, key);
    for (const Window& window : Windows(*dataset)) {
      const std::vector<std::byte> bytes = Read(*dataset, key, window.begin, window.end);
      std::vector<double> values(bytes.size() / SizeOf(spec.dtype));
      data::ConvertElements(spec.dtype, bytes, std::span(values));
      EXPECT_TRUE(std::ranges::all_of(values, [](double v) { return std::isfinite(v); }))
          << spec.name << " within steps " << window.begin << " to " << window.end;
    }
  }
}

TEST(DatasetConformance, StatisticsEqualBruteForce) {
  const auto dataset = Open();
  const std::int64_t n = NumSteps(*dataset);
  for (const int key : Keys(*dataset)) {
    const KeySpec& spec = SpecOf(*dataset, key);
    if (spec.type != KeyType::kLowDim) continue;
    const auto n_elements = static_cast<std::size_t>(spec.NumElements());
    const std::vector<std::byte> bytes = Read(*dataset, key, 0, n);
    std::vector<double> values(static_cast<std::size_t>(n) * n_elements);
    data::ConvertElements(spec.dtype, bytes, std::span(values));
    const KeyStats stats = data::ComputeStats(*dataset, key);
    ASSERT_EQ(stats.mean.size(), n_elements);
    for (std::size_t i = 0; i < n_elements; ++i) {
      double sum = 0.0;
      double low = values[i];
      double high = values[i];
      for (std::size_t j = i; j < values.size(); j += n_elements) {
        sum += values[j];
        low = std::min(low, values[j]);
        high = std::max(high, values[j]);
      }
      EXPECT_EQ(stats.min[i], low) << spec.name;
      EXPECT_EQ(stats.max[i], high) << spec.name;
      EXPECT_NEAR(stats.mean[i], sum / static_cast<double>(n),
                  kStatsTolerance * (1.0 + std::abs(low) + std::abs(high)));
    }
  }
}

}  // namespace
}  // namespace dp_bench::conformance

int main(int argc, char** argv) { return dp_bench::conformance::RunConformance(argc, argv); }
