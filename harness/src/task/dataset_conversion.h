// Copies the episodes of datasets into a new one, which may have another format.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "task/dataset_reading.h"

namespace dp_bench::plugin {
class PluginCatalogue;
}

namespace dp_bench::task {

struct DatasetConversion {
  /// Their episodes follow one another. All have the same keys and rate.
  std::vector<std::filesystem::path> sources;
  DatasetReading reading;
  std::filesystem::path output;
  std::string format;               // config::kZarrFormat, or a writer plugin
  std::vector<std::string> params;  // of the writer, "key=value"
  std::vector<std::string> map;     // for LeRobot: see interop::NameFeatures
  std::string task;                 // of episodes that have none; empty: the name of the source
  /// The episodes to copy, in this order and counted over all sources; none for all of them.
  std::optional<std::vector<std::int64_t>> episodes;
  std::int64_t drop_first = 0;  // steps to leave out at the beginning of every episode
  std::int64_t drop_last = 0;   // and at its end
  const std::atomic<bool>* stop = nullptr;
  bool is_described = false;  // the caller keeps what the sources say beside their keys: no note
};

struct ConversionProgress {
  std::int64_t n_episodes = 0;  // complete
  std::int64_t n_wanted = 0;
  std::int64_t n_steps = 0;  // of this process
};

struct ConvertedDataset {
  std::int64_t n_episodes = 0;  // so far
  std::int64_t n_steps = 0;
  std::vector<std::string> features;  // of LeRobot: "observation.state: agent_pos, block_pose"
  std::vector<std::string> notes;     // of the writer: how images are stored, what is left out
};

struct ConversionReport {
  bool is_interrupted = false;
  std::vector<ConvertedDataset> outputs;  // one per request
};

/// Copies the episodes of all requests, then makes the outputs readable. After an interruption or a
/// kill, the same call continues. Numbers arrive as float32, bit for bit, or the writer refuses
/// them; the notes say whether images do, and what is left out. Throws Error{kUsage} if the output
/// exists or was begun from another source, for episodes that do not exist, for those that would
/// lose all steps, and if the format needs a rate that is not known; Error{kShape} if the sources
/// do not fit together; Error{kNumeric} for NaN or Inf in one of them. All of this is checked
/// before anything is written.
ConversionReport ConvertDatasets(std::span<const DatasetConversion> requests,
                                 plugin::PluginCatalogue& catalogue,
                                 const std::function<void(const ConversionProgress&)>& progress);

/// ConvertDatasets with a progress line; stop signals interrupt it.
ConversionReport ConvertShowingProgress(std::vector<DatasetConversion> requests,
                                        plugin::PluginCatalogue& catalogue);

}  // namespace dp_bench::task
