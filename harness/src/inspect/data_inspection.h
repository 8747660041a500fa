// The content of a dataset and its faults: as text, as JSON and as a page. What an env without a
// dataset offers: as text and as JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "diagnose/finding.h"
#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "dp_bench/stats.h"
#include "report/line_plot.h"

namespace dp_bench::inspect {

struct KeyInspection {
  KeySpec spec;
  KeyStats stats;             // per dimension; for images per channel, in their own units
  std::int64_t n_frames = 0;  // the statistics cover all steps, or this many sampled images
};

/// An image of one step, and the actions commanded then.
struct SampleFrame {
  std::string key;
  std::int64_t episode = 0;
  std::int64_t step = 0;                    // of the episode
  RgbImage image{0, 0};                     // depth as grey, near is bright
  std::vector<std::vector<float>> actions;  // of this step and the following ones, [n, Da]
};

struct DataInspection {
  std::string name;
  double fps = 0.0;                   // 0 if the dataset does not say it
  std::vector<std::int64_t> lengths;  // of the episodes, in steps
  std::vector<KeyInspection> keys;
  diagnose::Findings faults;
  std::vector<SampleFrame> frames;
  std::vector<report::LinePlot> plots;  // of one dimension each, over the steps of some episodes

  std::int64_t n_steps() const;
};

inline constexpr int kSampledImages = 256;  // per camera, for the statistics

/// Reads all numbers and a sample of the images. Throws Error{kData} for a dataset without steps
/// or without an action.
DataInspection InspectData(const Dataset& dataset, const std::string& name,
                           int n_images = kSampledImages);

std::string ToText(const DataInspection& inspection);
nlohmann::json ToJson(const DataInspection& inspection);

/// A self-contained HTML file: keys, statistics, lengths, values, images, faults.
void WriteDataPage(const DataInspection& inspection, const std::filesystem::path& file);

struct EnvInspection {
  std::string name;    // of the task
  std::string plugin;  // of the env
  EnvSpec spec;
};

/// Tables, and a shape_meta for a task config.
std::string ToText(const EnvInspection& inspection);
nlohmann::json ToJson(const EnvInspection& inspection);

}  // namespace dp_bench::inspect
