// Copies a data set into another format.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace dp_bench::plugin {
class PluginCatalogue;
}

namespace dp_bench::experiment {

/// "zarr" is the format of `dp_bench collect`; other names are those of writer plugins.
inline constexpr const char* kZarrFormat = "zarr";

struct DatasetConversion {
  std::filesystem::path source;  // read by the plugin that fits it (config::DatasetPluginOf)
  std::filesystem::path output;
  std::string format;
  std::vector<std::string> params;  // of the writer, "key=value"
  std::vector<std::string> map;     // for LeRobot: see run::NameFeatures
  std::string task;                 // of episodes that have none; empty: the name of the source
  const std::atomic<bool>* stop = nullptr;
};

struct ConversionProgress {
  std::int64_t n_episodes = 0;  // complete
  std::int64_t n_wanted = 0;
  std::int64_t n_steps = 0;  // of this process
};

struct ConversionReport {
  std::int64_t n_episodes = 0;
  std::int64_t n_before = 0;  // of these, from an earlier process
  std::int64_t n_steps = 0;
  bool is_interrupted = false;
  std::vector<std::string> features;  // of LeRobot: "observation.state: agent_pos, block_pose"
};

/// Copies all episodes. After an interruption or a kill, the same call continues. Keys, steps and
/// pictures arrive bit for bit, or the writer refuses them. Throws Error{kUsage} if the output
/// exists or was begun from another source.
ConversionReport ConvertDataset(const DatasetConversion& request,
                                plugin::PluginCatalogue& catalogue,
                                const std::function<void(const ConversionProgress&)>& progress);

}  // namespace dp_bench::experiment
