#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dp_bench/error.h"
#include "harness/data/fake_dataset.h"

namespace dp_bench::data {
namespace {

SequenceSampler Sampler(const Dataset& dataset, int horizon = 4, int pad_before = 1,
                        int pad_after = 2) {
  const auto ends = dataset.episode_ends();
  return SequenceSampler({.episode_ends = {ends.begin(), ends.end()},
                          .horizon = horizon,
                          .pad_before = pad_before,
                          .pad_after = pad_after});
}

BatchLoaderOptions Options() {
  return {.batch_size = 5, .seed = 3, .n_obs_steps = 2, .keys = {"image", "state"}};
}

std::vector<HostBatch> Epoch(BatchLoader* loader, std::uint64_t epoch, std::int64_t first = 0) {
  std::vector<HostBatch> batches;
  HostBatch batch;
  loader->StartEpoch(epoch, first);
  while (loader->Next(&batch)) batches.push_back(batch);
  return batches;
}

bool BitwiseEqual(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin());
}

void ExpectEqual(const std::vector<HostBatch>& a, const std::vector<HostBatch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].indices, b[i].indices);
    EXPECT_TRUE(BitwiseEqual(a[i].action, b[i].action));
    EXPECT_TRUE(BitwiseEqual(a[i].is_pad, b[i].is_pad));
    for (const auto& [key, array] : a[i].obs) EXPECT_TRUE(BitwiseEqual(array, b[i].obs.at(key)));
  }
}

// Compares every value of a batch with the dataset's formulas and the sampler's steps.
void ExpectGathered(const HostBatch& batch, const SequenceSampler& sampler, int n_obs_steps) {
  const auto horizon = static_cast<std::size_t>(sampler.horizon());
  const auto n_obs = static_cast<std::size_t>(n_obs_steps);
  ASSERT_EQ(batch.action.shape(),
            (Shape{static_cast<std::int64_t>(batch.indices.size()), sampler.horizon(), 2}));
  for (std::size_t row = 0; row < batch.indices.size(); ++row) {
    const Sequence& sequence = sampler.at(batch.indices[row]);
    const std::vector<std::int64_t> steps = StepsOf(sampler, batch.indices[row]);
    for (std::size_t t = 0; t < horizon; ++t) {
      const auto time = static_cast<int>(t);
      EXPECT_EQ(batch.is_pad.as<std::uint8_t>()[row * horizon + t] != 0,
                time < sequence.n_pad_front || time >= sampler.horizon() - sequence.n_pad_back);
      for (int d = 0; d < 2; ++d) {
        EXPECT_EQ(batch.action.as<float>()[(row * horizon + t) * 2 + static_cast<std::size_t>(d)],
                  FakeDataset::Action(steps[t], d));
      }
      if (t >= n_obs) continue;
      for (int d = 0; d < 3; ++d) {
        EXPECT_EQ(
            batch.obs.at("state").as<float>()[(row * n_obs + t) * 3 + static_cast<std::size_t>(d)],
            static_cast<float>(FakeDataset::State(steps[t], d)));
      }
      for (int e = 0; e < 12; ++e) {
        EXPECT_EQ(batch.obs.at("image")
                      .as<std::uint8_t>()[(row * n_obs + t) * 12 + static_cast<std::size_t>(e)],
                  FakeDataset::Image(steps[t], e));
      }
    }
  }
}

TEST(BatchLoader, GathersObservationsActionsAndPadding) {
  const FakeDataset dataset({7, 9, 30});
  BatchLoader loader(dataset, Sampler(dataset), Options());
  const std::vector<HostBatch> batches = Epoch(&loader, 0);
  ASSERT_EQ(static_cast<std::int64_t>(batches.size()), loader.num_batches());
  EXPECT_EQ(batches[0].obs.at("image").shape(), (Shape{5, 2, 2, 2, 3})) << "[B, To, H, W, C]";
  for (const HostBatch& batch : batches) ExpectGathered(batch, loader.sampler(), 2);
}

TEST(BatchLoader, GathersWindowsThatAreAllPadding) {
  const FakeDataset dataset({1, 3, 30});
  BatchLoaderOptions options = Options();
  for (const int n_obs_steps : {3, 6}) {
    options.n_obs_steps = n_obs_steps;
    BatchLoader loader(dataset, Sampler(dataset, 6, 5, 5), options);
    for (const HostBatch& batch : Epoch(&loader, 0)) {
      ExpectGathered(batch, loader.sampler(), n_obs_steps);
    }
  }
}

TEST(BatchLoader, ThreadsAndDepthChangeNothing) {
  const FakeDataset dataset({40, 41, 90});
  BatchLoaderOptions options = Options();
  options.n_threads = 0;
  BatchLoader plain(dataset, Sampler(dataset), options);
  const std::vector<HostBatch> wanted = Epoch(&plain, 5);
  for (const int n_threads : {1, 2, 3, 8}) {
    for (const int depth : {1, 2, 7}) {
      options.n_threads = n_threads;
      options.prefetch_depth = depth;
      BatchLoader loader(dataset, Sampler(dataset), options);
      Epoch(&loader, 4);
      ExpectEqual(Epoch(&loader, 5), wanted);
    }
  }
}

TEST(BatchLoader, AnEpochResumesAtAnyBatch) {
  const FakeDataset dataset({40, 90});
  BatchLoader loader(dataset, Sampler(dataset), Options());
  const std::vector<HostBatch> whole = Epoch(&loader, 2);
  for (const std::int64_t first : {1, 7, 18}) {
    ExpectEqual(Epoch(&loader, 2, first), {whole.begin() + first, whole.end()});
  }
}

TEST(BatchLoader, AnEpochMayBeAbandoned) {
  const FakeDataset dataset({40, 90});
  BatchLoaderOptions options = Options();
  options.n_threads = 3;
  BatchLoader loader(dataset, Sampler(dataset), options);
  const std::vector<HostBatch> wanted = Epoch(&loader, 1);
  HostBatch batch;
  for (int i = 0; i < 20; ++i) {
    loader.StartEpoch(0);
    loader.Next(&batch);
  }
  ExpectEqual(Epoch(&loader, 1), wanted);
}

TEST(BatchLoader, EachEpochVisitsEverySequenceOnceInItsOwnOrder) {
  const FakeDataset dataset({40, 90});
  BatchLoader loader(dataset, Sampler(dataset), Options());
  std::vector<std::vector<std::int64_t>> orders(2);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (const HostBatch& batch : Epoch(&loader, epoch)) {
      orders[epoch].insert(orders[epoch].end(), batch.indices.begin(), batch.indices.end());
    }
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_EQ(orders[0], EpochOrder(3, 0, loader.sampler().size()));
  std::sort(orders[0].begin(), orders[0].end());
  std::sort(orders[1].begin(), orders[1].end());
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(std::unique(orders[0].begin(), orders[0].end()), orders[0].end());
}

TEST(BatchLoader, WithoutShuffleSequencesComeInOrder) {
  const FakeDataset dataset({40});
  BatchLoaderOptions options = Options();
  options.shuffle = false;
  BatchLoader loader(dataset, Sampler(dataset), options);
  EXPECT_THAT(Epoch(&loader, 9)[1].indices, testing::ElementsAre(5, 6, 7, 8, 9));
}

TEST(BatchLoader, DropLastLeavesOutTheShortBatch) {
  const FakeDataset dataset({40});  // 40 sequences with this padding
  BatchLoaderOptions options = Options();
  options.batch_size = 16;
  BatchLoader all(dataset, Sampler(dataset), options);
  EXPECT_EQ(all.num_batches(), 3);
  EXPECT_EQ(Epoch(&all, 0).back().indices.size(), 8U);
  options.drop_last = true;
  BatchLoader full(dataset, Sampler(dataset), options);
  EXPECT_EQ(Epoch(&full, 0).size(), 2U);
}

TEST(BatchLoader, UsesTheMemoryOfReturnedBatchesAgain) {
  const FakeDataset dataset({90});
  BatchLoaderOptions options = Options();
  options.n_threads = 2;
  BatchLoader loader(dataset, Sampler(dataset), options);
  std::vector<const std::byte*> buffers;
  HostBatch batch;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    loader.StartEpoch(epoch);
    while (loader.Next(&batch)) buffers.push_back(batch.obs.at("image").bytes().data());
  }
  std::sort(buffers.begin(), buffers.end());
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
  // waiting, being filled, at the caller, and free; plus one set for the short batches
  EXPECT_LE(buffers.size(), 2U * (4 + 2 + 1 + 1));
}

TEST(BatchLoader, ABatchOfAnotherLoaderIsNotMistakenForItsOwn) {
  const FakeDataset dataset({40});
  BatchLoaderOptions options = Options();
  BatchLoader two_obs(dataset, Sampler(dataset), options);
  options.n_obs_steps = 1;
  BatchLoader one_obs(dataset, Sampler(dataset), options);
  HostBatch batch;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    two_obs.StartEpoch(epoch);
    one_obs.StartEpoch(epoch);
    while (one_obs.Next(&batch)) {
      ExpectGathered(batch, one_obs.sampler(), 1);
      if (two_obs.Next(&batch)) ExpectGathered(batch, two_obs.sampler(), 2);
    }
  }
}

TEST(BatchLoader, ErrorsOfWorkersReachTheCallerAtTheirBatch) {
  FakeDataset dataset({40});
  for (const int n_threads : {0, 2}) {
    BatchLoaderOptions options = Options();
    options.n_threads = n_threads;
    options.shuffle = false;
    dataset.faulty_image_step = 12;
    BatchLoader loader(dataset, Sampler(dataset), options);
    HostBatch batch;
    loader.StartEpoch(0);
    EXPECT_TRUE(loader.Next(&batch));
    EXPECT_TRUE(loader.Next(&batch));
    EXPECT_THROW(loader.Next(&batch), Error);
    EXPECT_THROW(loader.Next(&batch), Error) << "an error must not look like the end of the epoch";
    dataset.faulty_image_step = -1;
    EXPECT_EQ(static_cast<std::int64_t>(Epoch(&loader, 0).size()), loader.num_batches());
  }
}

TEST(BatchLoader, AnEmptySamplerHasNoBatches) {
  const FakeDataset dataset({40});
  const SequenceSampler empty({.episode_ends = {40}, .episode_mask = {false}});
  BatchLoader loader(dataset, empty, Options());
  EXPECT_TRUE(Epoch(&loader, 0).empty());
}

TEST(BatchLoader, RefusesWhatCannotWork) {
  const FakeDataset dataset({40});
  const auto with = [&dataset](auto change) {
    BatchLoaderOptions options = Options();
    change(&options);
    BatchLoader(dataset, Sampler(dataset), options);
  };
  EXPECT_THROW(with([](auto* o) { o->batch_size = 0; }), Error);
  EXPECT_THROW(with([](auto* o) { o->n_obs_steps = 5; }), Error);
  EXPECT_THROW(with([](auto* o) { o->prefetch_depth = 0; }), Error);
  EXPECT_THROW(with([](auto* o) { o->keys = {"depth"}; }), Error);
  EXPECT_THROW(with([](auto* o) { *o = {.batch_size = 99, .drop_last = true}; }), Error);
  EXPECT_THROW(BatchLoader(dataset, SequenceSampler({.episode_ends = {50}}), Options()), Error);
}

}  // namespace
}  // namespace dp_bench::data
