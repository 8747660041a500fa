// A trained policy in a control loop: a program of its own gives observations of a robot and gets
// actions. Link dp_bench::deploy. Does not include LibTorch. See docs/deploying.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/export.h"
#include "dp_bench/spec.h"

namespace dp_bench {

/// Up to eight sizes or strides; Error{kShape} for more.
class DPB_API Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values);
  explicit Dims(std::span<const std::int64_t> values);
  std::span<const std::int64_t> values() const { return {values_.data(), size_}; }

 private:
  std::array<std::int64_t, 8> values_ = {};
  std::size_t size_ = 0;
};

/// One observation key of the current step, in the caller's memory. `first`: its element with all
/// indices 0. `byte_strides`: one for each dimension, also negative; none: C order without gaps.
struct ObsView {
  ObsView(std::string_view obs_key, const void* first, DType type, Dims sizes,
          Dims byte_strides = {})
      : key(obs_key), data(first), dtype(type), shape(sizes), strides(byte_strides) {}
  template <class T>
  ObsView(std::string_view obs_key, const T* first, Dims sizes, Dims byte_strides = {})
      : ObsView(obs_key, first, DTypeOf<T>::value, sizes, byte_strides) {}

  std::string_view key;
  const void* data;
  DType dtype;   // KeySpec::dtype
  Dims shape;    // KeySpec::StorageShape: images are [H, W, C], however they lie in memory
  Dims strides;  // [bytes]
};

/// How a controller runs.
struct ControllerOptions {
  std::string weights = "ema";                          // or "model"
  std::string device = "cpu";                           // or "cuda", "cuda:1", ...
  std::vector<std::filesystem::path> plugin_dirs = {};  // searched first
  /// 0: the call of Act that needs a chunk plans it. n > 0: another thread plans while n actions of
  /// the previous chunk are executed. This is env_runner.realtime with a latency of n steps.
  int latency_steps = 0;
  /// The time that a call of Act may take [s]; 0: no limit. If the other thread's plan is not there
  /// by then, Act returns the next action of the previous chunk, or its last one.
  double deadline_s = 0.0;
  /// How a chunk follows the actions that are executed while it is computed: the section
  /// env_runner.chunking of a config without its delay, R"({"method": "rtc", "execute": 8})". That
  /// of the checkpoint's config, which its evaluations have, is not read.
  std::string chunking = "{}";
  /// Rows of the policy's batch, whose number decides the low bits of actions. 1: the fastest
  /// plans. 0: that of the checkpoint's evaluations (env_runner.micro_batch).
  int micro_batch = 1;
};

/// Of the latest call of Act that returned an action.
struct ActTiming {
  double act_s = 0.0;                // the whole call
  double plan_s = 0.0;               // computing the plan that this call took over; 0: none
  bool is_stale = false;             // the action is from the previous chunk
  bool is_late = false;              // because the plan was not there in time: see deadline_s
  bool has_missed_deadline = false;  // is late, or took longer than deadline_s
};

/// Since Load.
struct ActCounts {
  std::int64_t n_acts = 0;  // that returned an action
  std::int64_t n_plans = 0;
  std::int64_t n_failed_plans = 0;
  std::int64_t n_missed_deadlines = 0;
};

/// Runs a policy in a control loop: `Reset` at the beginning of each episode, then `Act` once per
/// control step. It keeps the last To observations, plans chunks and hands out their Ta actions. If
/// no plan is late, they are those of `dp_bench eval` with this seed, latency, chunking and
/// micro_batch.
///
/// Used by one thread at a time. Act allocates memory only to plan a chunk itself, or to throw.
class DPB_API Controller {
 public:
  /// `checkpoint`: its folder, or a run folder. Plans once, so that the first chunk takes no longer
  /// than others. Throws Error{kUsage}, {kCheckpoint}, {kConfig} or {kPlugin}.
  static Controller Load(const std::filesystem::path& checkpoint,
                         const ControllerOptions& options = {});
  Controller(Controller&&) noexcept;
  Controller& operator=(Controller&&) noexcept;
  ~Controller();  // waits for a plan of another thread, and so does Reset

  const PolicySpec& spec() const;  // the observations that Act needs, the horizons
  const Config& config() const;    // of the training
  /// Begins an episode: forgets observations and actions. `seed` decides the policy's noise.
  void Reset(std::uint64_t seed);

  /// The action for the current step, [Da], in raw units; valid until the next call. `obs`: each
  /// key of the spec once. The first call of an episode waits for its plan. Throws Error{kUsage}
  /// before Reset. Throws Error{kShape} or {kNumeric} for wrong observations, as if it was not
  /// called, and what the policy throws: then the step counts, and the next call plans again.
  std::span<const float> Act(std::span<const ObsView> obs);

  /// Plans for B observation windows that belong to no episode: writes [B, Ta, Da] in raw units to
  /// `chunks`. `obs`: each key of the spec once, [B, To, storage shape], oldest step first. B =
  /// seeds.size(). `steps`: how many env steps each row's episode has executed; empty: none. A row
  /// depends on its own observations, seed and step alone, and is what an evaluation plans there;
  /// its low bits are those of micro_batch, the rows that are computed at once. Leaves the episode
  /// of Act as it is. Throws Error{kUsage} for `chunks` or `steps` of another size, {kShape} or
  /// {kNumeric} for wrong observations or plans.
  void Predict(std::span<const ObsView> obs, std::span<const std::uint64_t> seeds,
               std::span<float> chunks, std::span<const std::uint64_t> steps = {});

  const ActTiming& timing() const;
  const ActCounts& counts() const;

 private:
  struct Impl;
  explicit Controller(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dp_bench
