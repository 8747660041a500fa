// A small replay buffer for the tests of the plugin, and what they read of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/temporary_folder.h"
#include "support/read_all.h"
#include "support/zarr_files.h"
#include "zarr_replay_dataset.h"

namespace dp_bench::zarr_replay::testing {

using core::TemporaryFolder;
using namespace zarr;

/// Episodes of 4, 5 and 1 steps: data/action [10, 2] and data/state [10, 5] count up as float32,
/// data/img [10, 4, 4, 3] counts modulo 256; chunks of 4 steps, blosc with zstd and bitshuffle.
inline ZarrFiles SmallReplay() {
  ZarrFiles files;
  const Encoding blosc = Blosc("zstd", 2);
  std::vector<float> pixels = Count<float>(10 * 48);
  for (float& pixel : pixels) pixel = static_cast<float>(static_cast<int>(pixel) % 256);
  files.AddArray<float>("data/action", {{10, 2}, {4, 2}, blosc}, Count<float>(20));
  files.AddArray<float>("data/state", {{10, 5}, {4, 5}, blosc}, Count<float>(50));
  files.AddArray<float>("data/img", {{10, 4, 4, 3}, {4, 4, 4, 3}, blosc}, pixels);
  files.AddArray<std::int64_t>("meta/episode_ends", {{3}, {3}}, {4, 9, 10});
  return files;
}

/// Keys action, agent_pos (the first two of state) and image of SmallReplay, at `path`.
inline ZarrReplayConfig SmallConfig(const std::filesystem::path& path) {
  return {.path = path,
          .keys = {{"action", {.source = "data/action"}},
                   {"agent_pos", {.source = "data/state", .begin = 0, .end = 2}},
                   {"image", {.source = "data/img", .type = KeyType::kRgb}}}};
}

}  // namespace dp_bench::zarr_replay::testing
