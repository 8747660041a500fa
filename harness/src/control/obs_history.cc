#include "control/obs_history.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/copy_bytes.h"
#include "dp_bench/error.h"

namespace dp_bench::control {

ObsBatch MakeObsBatch(std::span<const KeySpec> keys, int n_rows, int n_obs_steps) {
  ObsBatch obs;
  for (const KeySpec& key : keys) {
    Shape shape = {n_rows, n_obs_steps};
    std::ranges::copy(key.StorageShape(), std::back_inserter(shape));
    obs.emplace(key.name, Array(key.dtype, std::move(shape)));
  }
  return obs;
}

void CopyRow(const ObsBatch& from, std::size_t place, ObsBatch* obs) {
  for (auto& [key, array] : *obs) {
    const std::span<const std::byte> row = from.find(key)->second.bytes();
    core::CopyBytes(row, array.bytes().subspan(place * row.size()));
  }
}

void RepeatFirstRow(std::size_t n_rows, ObsBatch* obs) {
  for (auto& [key, array] : *obs) {
    const std::size_t row_bytes = array.byte_size() / static_cast<std::size_t>(array.shape()[0]);
    const std::span<std::byte> first = array.bytes().first(row_bytes);
    for (std::span<std::byte> rest = array.bytes().subspan(n_rows * row_bytes); !rest.empty();
         rest = rest.subspan(row_bytes)) {
      core::CopyBytes(first, rest);
    }
  }
}

ObsHistory::ObsHistory(std::span<const KeySpec> keys, int n_obs_steps) : n_obs_steps_(n_obs_steps) {
  DPB_ASSERT(n_obs_steps >= 1);
  for (const KeySpec& key : keys) {
    const std::size_t frame_bytes = key.ByteSize();
    rings_.push_back(
        {.key = key.name,
         .frame_bytes = frame_bytes,
         .frames = std::vector<std::byte>(frame_bytes * static_cast<std::size_t>(n_obs_steps))});
  }
}

std::span<std::byte> ObsHistory::Frame(int key, int index) {
  Ring& ring = rings_[static_cast<std::size_t>(key)];
  return std::span(ring.frames)
      .subspan(static_cast<std::size_t>(index) * ring.frame_bytes, ring.frame_bytes);
}

std::span<std::byte> ObsHistory::Next(int key) { return Frame(key, oldest_); }

void ObsHistory::Push() { oldest_ = (oldest_ + 1) % n_obs_steps_; }

void ObsHistory::PushAsFirst() {
  for (int key = 0; key < static_cast<int>(rings_.size()); ++key) {
    for (int index = 0; index < n_obs_steps_; ++index) {
      if (index != oldest_) core::CopyBytes(Next(key), Frame(key, index));
    }
  }
  Push();
}

void ObsHistory::CopyWindows(std::size_t row, ObsBatch* obs) const {
  for (const Ring& ring : rings_) {
    const std::size_t n_bytes = ring.frames.size();
    const std::size_t oldest = static_cast<std::size_t>(oldest_) * ring.frame_bytes;
    std::byte* const window = obs->find(ring.key)->second.bytes().subspan(row * n_bytes).data();
    std::memcpy(window, ring.frames.data() + oldest, n_bytes - oldest);
    std::memcpy(window + n_bytes - oldest, ring.frames.data(), oldest);
  }
}

}  // namespace dp_bench::control
