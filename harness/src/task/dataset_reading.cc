#include "task/dataset_reading.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "config/dataset_format.h"
#include "core/errors.h"
#include "plugin/catalogue.h"

namespace dp_bench::task {
namespace {

using nlohmann::json;

json KeysIn(const std::string& text) {
  if (text.starts_with('{')) {
    json keys = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!keys.is_object()) throw UsageError("--keys {}: this is not an object in JSON", text);
    return keys;
  }
  json keys = json::object();
  std::istringstream names(text);
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty() || keys.contains(name)) {
      throw UsageError("--keys {}: expected names, each once, such as agent_pos,action", text);
    }
    keys[name] = json::object();
  }
  return keys;
}

}  // namespace

std::unique_ptr<Dataset> OpenDataset(const std::filesystem::path& path,
                                     const DatasetReading& reading,
                                     plugin::PluginCatalogue& catalogue) {
  const std::string reader = catalogue.ReaderOf(path);
  json params = {{"path", path.string()}};
  if (!reading.keys.empty()) params["keys"] = KeysIn(reading.keys);
  if (reading.tolerance_s) {
    if (reader != config::kLeRobotFormat) {
      throw UsageError("--tolerance is for LeRobot datasets; {} is {}", path.string(),
                       config::FormatOfReader(reader));
    }
    params["tolerance_s"] = *reading.tolerance_s;
  }
  auto dataset = catalogue.Create<Dataset>(reader, Config::FromJson(params.dump(), path.string()));
  if (dataset->episode_ends().empty()) throw DataError("'{}' holds no episode", path.string());
  return dataset;
}

double RateOf(const Dataset& dataset, const std::filesystem::path& path,
              const DatasetReading& reading) {
  const double recorded = dataset.spec().fps;
  if (!reading.fps || recorded == *reading.fps) return recorded;
  if (recorded == 0.0) return *reading.fps;
  throw UsageError(
      "--fps {}: {} says that it has {} Hz; --fps is for datasets that do not say their rate",
      *reading.fps, path.string(), recorded);
}

}  // namespace dp_bench::task
