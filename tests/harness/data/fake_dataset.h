// A dataset in memory in which every value identifies its step, for tests of dataset readers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/sequence_sampler.h"
#include "dp_bench/array.h"
#include "dp_bench/dataset.h"
#include "dp_bench/error.h"

namespace dp_bench::data {

/// Keys: action [2] float32 = step + 0.25 d; image [3, 2, 2] uint8 = 7 step + element; state [3]
/// float64 = 10 step + d.
class FakeDataset final : public Dataset {
 public:
  explicit FakeDataset(std::vector<std::int64_t> ends) : ends_(std::move(ends)) {
    spec_.fps = 10.0;
    spec_.keys = {
        {.name = "action", .shape = {2}},
        {.name = "image", .type = KeyType::kRgb, .shape = {3, 2, 2}, .dtype = DType::kUInt8},
        {.name = "state", .shape = {3}, .dtype = DType::kFloat64}};
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return ends_; }

  std::vector<std::string> ChannelNames(int key) const override {
    return key == 0 ? action_channels : std::vector<std::string>();
  }

  std::string Task(std::int64_t episode) const override {
    return tasks.empty() ? "" : tasks.at(static_cast<std::size_t>(episode));
  }

  void DoRead(int key, std::int64_t begin, std::int64_t end,
              std::span<std::byte> out) const override {
    const KeySpec& spec = spec_.keys[static_cast<std::size_t>(key)];
    std::byte* target = out.data();
    for (std::int64_t step = begin; step < end; ++step) {
      if (key == 1 && step == faulty_image_step) throw Error(ErrorCode::kData, "faulty image");
      for (int d = 0; d < spec.NumElements(); ++d) target = Write(key, step, d, target);
    }
  }

  static float Action(std::int64_t step, int d) {
    return static_cast<float>(step) + 0.25F * static_cast<float>(d);
  }
  static std::uint8_t Image(std::int64_t step, int element) {
    return static_cast<std::uint8_t>(7 * step + element);
  }
  static double State(std::int64_t step, int d) { return static_cast<double>(10 * step + d); }

  /// Keys that are changed must not be read.
  DatasetSpec& changed_spec() { return spec_; }

  std::vector<std::string> tasks;                   // by episode; none: they are not known
  std::vector<std::string> action_channels;         // none: they have no names
  std::int64_t nan_step = -1;                       // the second number of its action is NaN
  std::atomic<std::int64_t> faulty_image_step{-1};  // reading this step of the image throws

 private:
  template <class T>
  static std::byte* Append(T value, std::byte* target) {
    std::memcpy(target, &value, sizeof(value));
    return target + sizeof(value);
  }
  std::byte* Write(int key, std::int64_t step, int d, std::byte* target) const {
    const bool is_nan = step == nan_step && d == 1;
    if (key == 0) return Append(is_nan ? std::nanf("") : Action(step, d), target);
    if (key == 1) return Append(Image(step, d), target);
    return Append(State(step, d), target);
  }

  std::vector<std::int64_t> ends_;
  DatasetSpec spec_;
};

/// The T steps of sequence `i`, edges repeated.
inline std::vector<std::int64_t> StepsOf(const SequenceSampler& sampler, std::int64_t i) {
  const Sequence& sequence = sampler.at(i);
  std::vector<std::int64_t> steps(static_cast<std::size_t>(sampler.horizon()), sequence.begin);
  const auto own_end = steps.end() - sequence.n_pad_back;
  std::iota(steps.begin() + sequence.n_pad_front, own_end, sequence.begin);
  std::fill(own_end, steps.end(), sequence.end - 1);
  return steps;
}

}  // namespace dp_bench::data
