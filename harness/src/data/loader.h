// Batches of training sequences, gathered ahead of time by worker threads. The content of a batch
// depends only on (seed, epoch, batch number): not on threads, depth, or where the epoch was
// resumed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "data/sequence_sampler.h"
#include "dp_bench/array.h"
#include "dp_bench/dataset.h"

namespace dp_bench::data {

struct BatchLoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;
  bool drop_last = false;  // leave out the last batch of an epoch if it is not full
  std::uint64_t seed = 0;
  int n_obs_steps = 2;            // To; obs are the first To steps of a sequence, as upstream
  std::vector<std::string> keys;  // obs keys to gather; "action" always is
  int prefetch_depth = 4;         // batches that may wait for the caller
  int n_threads = 1;              // 0 gathers in the caller's thread
  Shard shard = {};               // which rows of each batch this process takes

  /// Above 0: VLASH's training (arXiv 2512.01031). Each row draws a delay d in [0,
  /// max_roll_forward] (less at the end of an episode). Its actions and is_pad are those of the
  /// sequence d steps later, and so are the elements of observations that follow actions: the
  /// robot's own state. The other observations stay.
  int max_roll_forward = 0;
  std::map<std::string, std::vector<int>> followed_actions = {};  // control::FollowedActions
};

/// Low-dimensional keys are float32, whatever the dataset stores; images keep the dataset's dtype
/// and layout. B may be 0 if the batch has fewer rows than there are processes.
struct HostBatch {
  std::vector<std::int64_t> indices;  // [B] sequences of the sampler
  ArrayMap obs;                       // key -> [B, To, storage shape]
  Array action;                       // [B, T, Da] float32
  Array is_pad;                       // [B, T] uint8: the step repeats the edge of its episode
  std::int64_t first_row = 0;         // its rows are those from here in the whole batch
};

/// Sequences that have a share of their own in every epoch.
struct SamplePool {
  std::vector<std::int64_t> sequences;
  double share = 0.0;  // of the visits; the shares of all pools add up to 1
};

class BatchLoader {
 public:
  /// A Mixture chooses how often its sequences are visited. `dataset` must outlive the loader.
  /// Low-dimensional keys are read into memory here. Throws Error{kConfig} for options that cannot
  /// work, Error{kData} for keys the dataset lacks.
  BatchLoader(const Dataset& dataset, SequenceSampler sampler, const BatchLoaderOptions& options);
  /// Waits for the batches that are being gathered.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The number of batches of an epoch; 0 if the sampler is empty.
  std::int64_t num_batches() const { return num_batches_; }
  const SequenceSampler& sampler() const { return sampler_; }

  /// Starts an epoch at `first_batch` (for a resume) and drops the rest of the previous one.
  void StartEpoch(std::uint64_t epoch, std::int64_t first_batch = 0);

  /// Swaps the next batch into `*out`, whose old memory is reused; false at the end of the epoch.
  /// Waits for the workers. If gathering this batch failed, throws the exception, at this and every
  /// further call until the next StartEpoch.
  bool Next(HostBatch* out);

 private:
  // A key to gather, with all its steps in memory if it is low-dimensional.
  struct Source {
    KeySpec spec;
    int key = 0;               // index in the dataset
    std::vector<float> cache;  // [n_steps, D]; empty for images
  };
  // A batch that is being gathered, or was.
  struct Prepared {
    std::unique_ptr<HostBatch> batch;
    std::shared_future<void> done;
  };

  Source OpenSource(const std::string& key) const;
  void Allocate(std::int64_t n_rows, HostBatch* batch) const;
  void Gather(std::int64_t batch_number, HostBatch* batch) const;
  void GatherObs(const Source& source, const Sequence& sequence, std::byte* out) const;
  void GatherAction(const Sequence& sequence, float* out) const;
  std::int64_t DrawDelay(std::int64_t index, std::int64_t visit) const;
  void RollForward(const Source& source, const Sequence& planned, std::byte* out) const;
  bool IsOurs(const HostBatch& batch) const;
  HostBatch TakeBuffer(std::int64_t n_rows);
  void Recycle(HostBatch* batch);
  std::int64_t AllRowsOf(std::int64_t batch_number) const;
  std::int64_t RowsOf(std::int64_t batch_number) const;  // this process's share of them
  void Submit(std::int64_t batch_number);

  const Dataset& dataset_;
  const SequenceSampler sampler_;
  const BatchLoaderOptions options_;
  std::vector<Source> obs_sources_;
  Source action_source_;
  HostBatch prototype_;  // one row: the shapes and dtypes of every batch
  std::int64_t num_batches_ = 0;

  std::vector<SamplePool> pools_;      // of a Mixture; empty: an epoch visits every sequence once
  std::vector<std::int64_t> order_;    // of the sequences, in the running epoch
  std::uint64_t epoch_ = 0;            // the running one
  std::int64_t next_to_hand_out_ = 0;  // batch number of the running epoch
  std::atomic<bool> is_epoch_over_{false};
  std::vector<HostBatch> free_;           // buffers to reuse
  std::deque<Prepared> prepared_;         // the next batches, in order
  std::optional<core::ThreadPool> pool_;  // last: its jobs use the others
};

// The order in which an epoch visits the samples.

/// A permutation of {0, ..., n - 1} that depends only on (seed, epoch, n). Throws Error{kData} for
/// n of 2^32 or more.
std::vector<std::int64_t> EpochOrder(std::uint64_t seed, std::uint64_t epoch, std::int64_t n);

/// An epoch of `n` visits, at least as many as pools. Each pool has its share, but at least one;
/// the shares are rounded so that they are n in all. Over the epochs, a pool visits all its
/// sequences equally often, give or take one. Depends only on the arguments. Throws Error{kData} as
/// EpochOrder does.
std::vector<std::int64_t> MixedEpochOrder(std::uint64_t seed, std::uint64_t epoch, std::int64_t n,
                                          std::span<const SamplePool> pools);

// Converts the numbers of datasets, of any dtype, to the float32 or float64 of the harness.

/// Converts `in`, elements of type `from` aligned for it, to `out`, one to one. Integers beyond
/// 2^24 are rounded to the nearest float32. The sizes must agree. Out is float or double.
template <class Out>
void ConvertElements(DType from, std::span<const std::byte> in, std::span<Out> out);

}  // namespace dp_bench::data
