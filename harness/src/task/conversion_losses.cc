#include "task/conversion_losses.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "config/dataset_format.h"
#include "core/json.h"

namespace dp_bench::task {

KeySpec KeyAsWritten(const KeySpec& key, const std::string& format) {
  KeySpec written = key;
  const bool has_only_millimetres =
      format == config::kZarrFormat || format == config::kLeRobotFormat;
  if (key.type == KeyType::kDepth && has_only_millimetres) written.dtype = DType::kUInt16;
  return written;
}

void ToMillimetres(std::span<std::byte> images) {
  constexpr double kMillimetresPerMetre = 1000.0;
  constexpr double kHighest = 65535.0;
  const std::size_t n = images.size() / sizeof(float);
  for (std::size_t i = 0; i < n; ++i) {
    float metres = 0.0F;
    std::memcpy(&metres, images.data() + i * sizeof(metres), sizeof(metres));
    // exact: a float has 24 bits, and 1000 has 10
    const double exact = static_cast<double>(metres) * kMillimetresPerMetre;
    const auto millimetres =
        exact > 0.0 ? static_cast<std::uint16_t>(std::min(std::nearbyint(exact), kHighest))
                    : std::uint16_t{0};
    std::memcpy(images.data() + i * sizeof(millimetres), &millimetres, sizeof(millimetres));
  }
}

std::set<std::string> FeaturesWithoutKey(const std::filesystem::path& path,
                                         const Dataset& dataset) {
  constexpr std::size_t kMaxInfo = std::size_t{64} << 20;
  const nlohmann::json info = core::ReadJsonFile(path / "meta/info.json", kMaxInfo);
  const nlohmann::json entries = core::ValueAt(info, "/features");
  std::set<std::string> features;
  for (const auto& [name, entry] : entries.items()) features.insert(name);
  for (const char* const own :
       {"timestamp", "frame_index", "episode_index", "index", "task_index"}) {
    features.erase(own);
  }
  for (int key = 0; key < static_cast<int>(dataset.spec().keys.size()); ++key) {
    features.erase(dataset.FeatureName(key));
  }
  return features;
}

}  // namespace dp_bench::task
