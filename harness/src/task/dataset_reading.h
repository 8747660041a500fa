// Datasets that are named by their paths, without a config: how to read them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "dp_bench/dataset.h"

namespace dp_bench::plugin {
class PluginCatalogue;
}

namespace dp_bench::task {

/// Options of the command line. They hold for every dataset that a verb reads.
struct DatasetReading {
  /// "agent_pos,action": only these keys. Or an object in JSON, as dataset.params.keys. Empty: what
  /// the reader takes by itself.
  std::string keys;
  std::optional<double> fps;          // of datasets that do not say their rate
  std::optional<double> tolerance_s;  // of LeRobot datasets
};

/// Opens it with the plugin that recognizes it. A key that is only named reaches the
/// plugin as an empty object in `keys`, which stands for the key as it is read by default. Throws
/// Error{kUsage} for keys that are neither names nor an object, and for a tolerance of a format
/// that has none.
std::unique_ptr<Dataset> OpenDataset(const std::filesystem::path& path,
                                     const DatasetReading& reading,
                                     plugin::PluginCatalogue& catalogue);

/// Its steps per second: what it says, or else `reading.fps`; 0 if neither is known. Throws
/// Error{kUsage} if both are, and differ.
double RateOf(const Dataset& dataset, const std::filesystem::path& path,
              const DatasetReading& reading);

}  // namespace dp_bench::task
