// Five short episodes, with one mistake that authors of dataset readers make: the param `mistake`
// names it. Without one ("none"), the reader keeps the contract. tests/conformance/mistakes.py
// lists what dp_bench says about each.
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"

namespace dp_bench::broken {
namespace {

class MistakenDataset final : public Dataset {
 public:
  static std::unique_ptr<Dataset> Create(const Config& params) {
    return std::make_unique<MistakenDataset>(params);
  }

  explicit MistakenDataset(const Config& params)
      : mistake_(params.Get<std::string>("mistake", "none", "what is wrong with this reader")) {
    const std::filesystem::path path =
        params.Get<std::string>("path", "", "may name the mistake, as in no_episodes.mistaken");
    if (path.stem() == "no_episodes") mistake_ = path.stem();
    if (Is("throw_in_create")) throw std::runtime_error("no such file");
    spec_.keys = {{.name = "action", .shape = {2}}, {.name = "position", .shape = {3}}};
    if (Is("unsorted_keys")) std::swap(spec_.keys[0], spec_.keys[1]);
    if (Is("duplicate_keys")) spec_.keys[1].name = "action";
    if (Is("no_keys")) spec_.keys.clear();
    if (Is("empty_shape")) spec_.keys[1].shape = {};
    spec_.fps = Is("no_fps") ? -1.0 : 10.0;
    ends_ = {8, 16, 24, 32, 40};
    if (Is("no_episodes")) ends_.clear();
    if (Is("falling_ends")) std::swap(ends_[1], ends_[2]);
    if (Is("empty_episode")) ends_[1] = ends_[0];
    if (Is("random_data")) offset_ = static_cast<float>(std::random_device()() % 1000);
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return ends_; }

  void DoRead(int key, std::int64_t begin, std::int64_t end,
              std::span<std::byte> out) const override {
    if (Is("throw_in_read")) throw std::runtime_error("chunk 3 is missing");
    const auto n =
        static_cast<std::size_t>(spec_.keys[static_cast<std::size_t>(key)].NumElements());
    if (Is("cursor")) cursor_ = begin;
    for (std::int64_t step = begin; step < end; ++step) {
      if (Is("cursor")) std::this_thread::sleep_for(std::chrono::microseconds(20));
      const std::int64_t at = Is("cursor") ? cursor_++ : Is("wrong_order") ? begin : step;
      for (std::size_t i = 0; i < n; ++i) {
        if (Is("unwritten_numbers") && i + 1 == n) continue;
        const float value = ValueAt(at, i);
        std::memcpy(out.data() + (static_cast<std::size_t>(step - begin) * n + i) * sizeof(value),
                    &value, sizeof(value));
      }
    }
    if (Is("writes_after_buffer")) *(out.data() + out.size()) = std::byte{0};
  }

 private:
  bool Is(std::string_view mistake) const { return mistake_ == mistake; }

  float ValueAt(std::int64_t step, std::size_t i) const {
    if (Is("nan") && step == 5) return std::numeric_limits<float>::quiet_NaN();
    return offset_ + std::sin(0.3F * static_cast<float>(step) + static_cast<float>(i));
  }

  std::string mistake_;
  DatasetSpec spec_;
  std::vector<std::int64_t> ends_;
  float offset_ = 0.0F;
  mutable std::int64_t cursor_ = 0;  // of a reader that is not safe on several threads
};

bool IsMistaken(const std::filesystem::path& path) {
  if (path.extension() == ".unreadable") throw std::runtime_error("cannot look");
  return path.extension() == ".mistaken";
}

}  // namespace
}  // namespace dp_bench::broken

#ifndef DATASET_NAME
#define DATASET_NAME "mistaken"
#endif
DPB_EXPORT_PLUGIN(dp_bench::Dataset, DATASET_NAME, "0.1.0",
                  &dp_bench::broken::MistakenDataset::Create, &dp_bench::broken::IsMistaken)
