// The sections of a config and the code that reads each, for the check of unknown keys and for
// `dp_bench keys`.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "config/key_reference.h"
#include "plugin/catalogue.h"

namespace dp_bench::task {

struct ConfigSection {
  const char* name;
  const char* meaning;
  void (*read)(const Config& section);
};

/// The sections that the harness itself reads.
std::span<const ConfigSection> ConfigSections();

/// `config` with the defaults of all keys that it leaves out, as far as the harness itself reads
/// them: params of plugins and shape_meta have none.
nlohmann::json WithDefaults(const nlohmann::json& config);

/// Selects keys. Empty: all sections, all plugins.
struct KeyRequest {
  std::string section;  // "training"; "env", "dataset" and "policy" include the params of plugins
  std::string env;      // names of plugins
  std::string dataset;
  std::string policy;
};

/// The keys of the harness's sections, then those of the plugins. Creates every plugin a few times.
/// Throws Error{kUsage} for an unknown section, Error{kPlugin} for an unknown plugin.
std::vector<config::KeySection> ConfigReference(const KeyRequest& request,
                                                plugin::PluginCatalogue& catalogue);

}  // namespace dp_bench::task
