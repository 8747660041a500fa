#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "core/errors.h"
#include "core/random_streams.h"
#include "core/visit_dtype.h"
#include "data/mixture.h"

namespace dp_bench::data {

namespace {

void Check(const SequenceSampler& sampler, const BatchLoaderOptions& options) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw Error(ErrorCode::kConfig, message);
  };
  require(options.batch_size >= 1,
          fmt::format("batch_size is {}; expected at least 1", options.batch_size));
  require(options.n_obs_steps >= 1 && options.n_obs_steps <= sampler.horizon(),
          fmt::format("n_obs_steps is {}; expected 1 to the horizon, {}", options.n_obs_steps,
                      sampler.horizon()));
  require(options.prefetch_depth >= 1 && options.n_threads >= 0,
          fmt::format("prefetch_depth is {} and n_threads {}; expected at least 1 and 0",
                      options.prefetch_depth, options.n_threads));
  require(!options.drop_last || sampler.size() == 0 || sampler.size() >= options.batch_size,
          fmt::format("drop_last leaves no batch: {} sequences are fewer than batch_size {}",
                      sampler.size(), options.batch_size));
}

Shape Prepend(std::initializer_list<std::int64_t> front, const Shape& shape) {
  Shape all(front);
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

// Fisher-Yates.
void Shuffle(RandomStream stream, std::vector<std::int64_t>* order) {
  if (order->size() > std::numeric_limits<std::uint32_t>::max()) {
    throw DataError("cannot shuffle {} sequences", order->size());
  }
  for (std::size_t i = order->size(); i > 1; --i) {
    std::swap((*order)[i - 1], (*order)[stream.UniformInt(static_cast<std::uint32_t>(i))]);
  }
}

// How many of `n` visits each pool has: its share rounded down, but at least one, and one more for
// those that lose most by that.
std::vector<std::int64_t> VisitsOf(std::span<const SamplePool> pools, std::int64_t n) {
  std::vector<std::int64_t> visits;
  std::vector<std::pair<double, std::size_t>> lost;
  for (const SamplePool& pool : pools) {
    const double wanted = pool.share * static_cast<double>(n);
    visits.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted)));
    lost.emplace_back(static_cast<double>(visits.back()) - wanted, lost.size());
  }
  std::ranges::sort(lost);
  std::int64_t n_left = n - std::reduce(visits.begin(), visits.end());
  for (; n_left < 0; ++n_left) --*std::ranges::max_element(visits);
  for (std::size_t i = 0; n_left > 0; i = (i + 1) % lost.size(), --n_left) {
    ++visits[lost[i].second];
  }
  return visits;
}

}  // namespace

BatchLoader::BatchLoader(const Dataset& dataset, SequenceSampler sampler,
                         const BatchLoaderOptions& options)
    : dataset_(dataset), sampler_(std::move(sampler)), options_(options) {
  Check(sampler_, options_);
  for (const std::string& key : options_.keys) obs_sources_.push_back(OpenSource(key));
  action_source_ = OpenSource("action");
  if (action_source_.cache.empty()) {
    throw DataError("the key 'action' of a dataset must be low_dim");
  }

  const std::span<const std::int64_t> ends = dataset_.episode_ends();
  if (sampler_.num_steps() != (ends.empty() ? 0 : ends.back())) {
    throw DataError("the sampler describes {} steps, but the dataset has {}", sampler_.num_steps(),
                    ends.empty() ? 0 : ends.back());
  }
  Allocate(1, &prototype_);

  num_batches_ = sampler_.size() / options_.batch_size;
  if (!options_.drop_last && sampler_.size() % options_.batch_size != 0) ++num_batches_;
  next_to_hand_out_ = num_batches_;  // no epoch yet
  if (const Mixture* mixture = Mixture::Find(dataset_)) pools_ = mixture->PoolsOf(sampler_);
  if (options_.n_threads > 0) pool_.emplace(options_.n_threads);
}

BatchLoader::~BatchLoader() { is_epoch_over_ = true; }

BatchLoader::Source BatchLoader::OpenSource(const std::string& key) const {
  Source source;
  source.key = dataset_.KeyIndex(key);
  source.spec = dataset_.spec().keys[static_cast<std::size_t>(source.key)];
  const std::span<const std::int64_t> ends = dataset_.episode_ends();
  if (source.spec.is_image() || ends.empty()) return source;

  // read all steps once; from here on gathering is memcpy
  Array raw(source.spec.dtype, Prepend({ends.back()}, source.spec.shape));
  dataset_.Read(source.key, 0, ends.back(), raw.bytes());
  source.cache.resize(static_cast<std::size_t>(raw.size()));
  ConvertElements(source.spec.dtype, raw.bytes(), std::span(source.cache));
  return source;
}

std::int64_t BatchLoader::AllRowsOf(std::int64_t batch_number) const {
  return std::min(options_.batch_size, sampler_.size() - batch_number * options_.batch_size);
}

std::int64_t BatchLoader::RowsOf(std::int64_t batch_number) const {
  return options_.shard.Size(AllRowsOf(batch_number));
}

void BatchLoader::StartEpoch(std::uint64_t epoch, std::int64_t first_batch) {
  if (first_batch < 0 || first_batch > num_batches_) {
    throw InternalError("an epoch of {} batches cannot start at batch {}", num_batches_,
                        first_batch);
  }
  is_epoch_over_ = true;  // for the batches that wait to be gathered
  for (Prepared& prepared : prepared_) {
    prepared.done.wait();
    Recycle(prepared.batch.get());
  }
  prepared_.clear();
  is_epoch_over_ = false;
  epoch_ = epoch;
  if (options_.shuffle) {
    order_ = pools_.empty() ? EpochOrder(options_.seed, epoch, sampler_.size())
                            : MixedEpochOrder(options_.seed, epoch, sampler_.size(), pools_);
  } else {
    order_.resize(static_cast<std::size_t>(sampler_.size()));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
  }
  next_to_hand_out_ = first_batch;
  for (int i = 0; pool_ && i < options_.prefetch_depth; ++i) Submit(first_batch + i);
}

// Has the batch gathered, if there is one of this number.
void BatchLoader::Submit(std::int64_t batch_number) {
  if (batch_number >= num_batches_) return;
  Prepared prepared{.batch = std::make_unique<HostBatch>(TakeBuffer(RowsOf(batch_number)))};
  prepared.done = core::RunOn(*pool_, [this, batch_number, batch = prepared.batch.get()] {
                    if (!is_epoch_over_) Gather(batch_number, batch);
                  }).share();
  prepared_.push_back(std::move(prepared));
}

bool BatchLoader::Next(HostBatch* out) {
  if (next_to_hand_out_ == num_batches_) return false;
  std::unique_ptr<HostBatch> batch;
  if (pool_) {
    prepared_.front().done.get();
    Submit(next_to_hand_out_ + options_.prefetch_depth);
    batch = std::move(prepared_.front().batch);
    prepared_.pop_front();
  } else {
    batch = std::make_unique<HostBatch>(TakeBuffer(RowsOf(next_to_hand_out_)));
    Gather(next_to_hand_out_, batch.get());
  }
  ++next_to_hand_out_;
  std::swap(*out, *batch);
  Recycle(batch.get());
  return true;
}

// A buffer of `n_rows` rows, a used one if there is one.
HostBatch BatchLoader::TakeBuffer(std::int64_t n_rows) {
  for (HostBatch& candidate : free_) {
    if (candidate.action.shape()[0] != n_rows) continue;
    HostBatch batch = std::move(candidate);
    candidate = std::move(free_.back());
    free_.pop_back();
    return batch;
  }
  HostBatch batch;
  Allocate(n_rows, &batch);
  return batch;
}

// A batch from the caller may be empty or from another loader.
bool BatchLoader::IsOurs(const HostBatch& batch) const {
  const std::size_t n_rows = batch.indices.size();
  const auto fits = [n_rows](const Array& array, const Array& row) {
    return n_rows > 0 && array.dtype() == row.dtype() &&
           array.shape().size() == row.shape().size() &&
           array.shape()[0] == static_cast<std::int64_t>(n_rows) &&
           std::equal(row.shape().begin() + 1, row.shape().end(), array.shape().begin() + 1);
  };
  return fits(batch.action, prototype_.action) && fits(batch.is_pad, prototype_.is_pad) &&
         std::equal(batch.obs.begin(), batch.obs.end(), prototype_.obs.begin(),
                    prototype_.obs.end(), [&fits](const auto& entry, const auto& row) {
                      return entry.first == row.first && fits(entry.second, row.second);
                    });
}

void BatchLoader::Recycle(HostBatch* batch) {
  const auto limit = static_cast<std::size_t>(options_.prefetch_depth + options_.n_threads + 1);
  if (IsOurs(*batch) && free_.size() < limit) free_.push_back(std::move(*batch));
  *batch = HostBatch();
}

void BatchLoader::Allocate(std::int64_t n_rows, HostBatch* batch) const {
  const std::int64_t horizon = sampler_.horizon();
  batch->indices.resize(static_cast<std::size_t>(n_rows));
  for (const Source& source : obs_sources_) {
    const DType dtype = source.spec.is_image() ? source.spec.dtype : DType::kFloat32;
    batch->obs[source.spec.name] =
        Array(dtype, Prepend({n_rows, options_.n_obs_steps}, source.spec.StorageShape()));
  }
  batch->action = Array(DType::kFloat32, {n_rows, horizon, action_source_.spec.NumElements()});
  batch->is_pad = Array(DType::kUInt8, {n_rows, horizon});
}

void BatchLoader::Gather(std::int64_t batch_number, HostBatch* batch) const {
  const auto n_rows = static_cast<std::size_t>(RowsOf(batch_number));
  const auto horizon = static_cast<std::size_t>(sampler_.horizon());
  batch->first_row = options_.shard.Begin(AllRowsOf(batch_number));
  if (n_rows == 0) return;
  const std::int64_t first = batch_number * options_.batch_size + batch->first_row;
  std::copy_n(order_.begin() + first, n_rows, batch->indices.begin());

  const std::size_t action_size = batch->action.as<float>().size() / n_rows;
  for (std::size_t row = 0; row < n_rows; ++row) {
    const Sequence& sequence = sampler_.at(batch->indices[row]);
    const std::int64_t delay =
        DrawDelay(batch->indices[row], first + static_cast<std::int64_t>(row));
    const Sequence& planned = sampler_.at(batch->indices[row] + delay);
    GatherAction(planned, batch->action.as<float>().data() + row * action_size);

    std::uint8_t* is_pad = batch->is_pad.as<std::uint8_t>().data() + row * horizon;
    std::fill_n(is_pad, horizon, std::uint8_t{0});
    std::fill_n(is_pad, planned.n_pad_front, std::uint8_t{1});
    std::fill_n(is_pad + horizon - planned.n_pad_back, planned.n_pad_back, std::uint8_t{1});

    for (const Source& source : obs_sources_) {
      const std::span<std::byte> all = batch->obs.find(source.spec.name)->second.bytes();
      std::byte* out = all.data() + row * (all.size() / n_rows);
      GatherObs(source, sequence, out);
      if (delay > 0) RollForward(source, planned, out);
    }
  }
}

// The steps from the observation of a row to its plan. `visit` is its number in the epoch.
std::int64_t BatchLoader::DrawDelay(std::int64_t index, std::int64_t visit) const {
  if (options_.max_roll_forward == 0) return 0;
  const std::span<const std::int64_t> ends = dataset_.episode_ends();
  const std::int64_t episode_end = *std::ranges::upper_bound(ends, sampler_.at(index).begin);
  std::uint32_t most = 0;  // the sequences of an episode follow each other
  while (std::cmp_less(most, options_.max_roll_forward) && index + most + 1 < sampler_.size() &&
         sampler_.at(index + most + 1).begin < episode_end) {
    ++most;
  }
  RandomStream stream(options_.seed, core::kRollForwardStream, epoch_,
                      static_cast<std::uint32_t>(visit));
  return stream.UniformInt(most + 1);
}

// Replaces the elements of a gathered window that follow actions by those of a later sequence.
void BatchLoader::RollForward(const Source& source, const Sequence& planned, std::byte* out) const {
  const auto followed = options_.followed_actions.find(source.spec.name);
  if (followed == options_.followed_actions.end()) return;
  const std::size_t n_elements = followed->second.size();
  std::vector<float> later(static_cast<std::size_t>(options_.n_obs_steps) * n_elements);
  GatherObs(source, planned, std::as_writable_bytes(std::span(later)).data());
  for (std::size_t i = 0; i < later.size(); ++i) {
    if (followed->second[i % n_elements] < 0) continue;
    std::memcpy(out + i * sizeof(float), &later[i], sizeof(float));
  }
}

void BatchLoader::GatherAction(const Sequence& sequence, float* out) const {
  const auto width = static_cast<std::size_t>(action_source_.spec.NumElements());
  const float* steps = action_source_.cache.data();
  const float* first = steps + static_cast<std::size_t>(sequence.begin) * width;
  const float* last = steps + static_cast<std::size_t>(sequence.end - 1) * width;
  for (int i = 0; i < sequence.n_pad_front; ++i) out = std::copy_n(first, width, out);
  out = std::copy(first, last + width, out);
  for (int i = 0; i < sequence.n_pad_back; ++i) out = std::copy_n(last, width, out);
}

// The first To steps of the sequence: those of the front padding, its own, and for a short episode
// those of the back padding.
void BatchLoader::GatherObs(const Source& source, const Sequence& sequence, std::byte* out) const {
  const bool is_cached = !source.cache.empty();
  const std::size_t step_bytes =
      is_cached ? static_cast<std::size_t>(source.spec.NumElements()) * sizeof(float)
                : source.spec.ByteSize();
  const auto n_steps = static_cast<std::size_t>(options_.n_obs_steps);
  const std::size_t n_front = std::min(n_steps, static_cast<std::size_t>(sequence.n_pad_front));
  const std::size_t n_own = std::clamp<std::size_t>(
      n_steps - n_front, 1, static_cast<std::size_t>(sequence.end - sequence.begin));

  // own steps first, so that the padding can copy from them; all-padding windows hold the first
  // step
  const std::size_t first_own = std::min(n_front, n_steps - 1);
  std::byte* own = out + first_own * step_bytes;
  if (is_cached) {
    const auto* steps = reinterpret_cast<const std::byte*>(source.cache.data());
    std::memcpy(own, steps + static_cast<std::size_t>(sequence.begin) * step_bytes,
                n_own * step_bytes);
  } else {
    dataset_.Read(source.key, sequence.begin, sequence.begin + static_cast<std::int64_t>(n_own),
                  {own, n_own * step_bytes});
  }
  for (std::size_t i = 0; i < first_own; ++i) std::memcpy(out + i * step_bytes, own, step_bytes);
  const std::byte* last = own + (n_own - 1) * step_bytes;
  for (std::size_t i = first_own + n_own; i < n_steps; ++i) {
    std::memcpy(out + i * step_bytes, last, step_bytes);
  }
}

std::vector<std::int64_t> EpochOrder(std::uint64_t seed, std::uint64_t epoch, std::int64_t n) {
  if (n < 0) throw DataError("cannot shuffle {} sequences", n);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Shuffle(RandomStream(seed, core::kShuffleStream, epoch), &order);
  return order;
}

std::vector<std::int64_t> MixedEpochOrder(std::uint64_t seed, std::uint64_t epoch, std::int64_t n,
                                          std::span<const SamplePool> pools) {
  const std::vector<std::int64_t> visits = VisitsOf(pools, n);
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    // the pool's visits of all epochs are one permutation of it after the other
    const auto size = static_cast<std::int64_t>(pools[i].sequences.size());
    std::int64_t visit = static_cast<std::int64_t>(epoch) * visits[i];
    const std::int64_t end = visit + visits[i];
    while (visit < end) {
      std::vector<std::int64_t> permuted = pools[i].sequences;
      const std::int64_t pass = visit / size;
      Shuffle(RandomStream(seed, core::kShuffleStream, static_cast<std::uint64_t>(pass),
                           static_cast<std::uint32_t>(i + 1)),
              &permuted);
      const std::int64_t pass_end = std::min(end, (pass + 1) * size);
      order.insert(order.end(), permuted.begin() + (visit - pass * size),
                   permuted.begin() + (pass_end - pass * size));
      visit = pass_end;
    }
  }
  Shuffle(RandomStream(seed, core::kShuffleStream, epoch), &order);
  return order;
}

template <class Out>
void ConvertElements(DType from, std::span<const std::byte> in, std::span<Out> out) {
  DPB_ASSERT(in.size() == out.size() * SizeOf(from));
  core::VisitDType(from, [&]<class In>(In /*type*/) {
    const In* values = reinterpret_cast<const In*>(in.data());
    std::transform(values, values + out.size(), out.begin(),
                   [](In value) { return static_cast<Out>(value); });
  });
}

template void ConvertElements(DType, std::span<const std::byte>, std::span<float>);
template void ConvertElements(DType, std::span<const std::byte>, std::span<double>);

}  // namespace dp_bench::data
