// The sections of a config, with the code that reads each: for the check of unknown keys, and for
// the reference of all keys (`dp_bench keys`).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/key_reference.h"
#include "plugin/catalogue.h"

namespace dp_bench::experiment {

struct ConfigSection {
  const char* name;
  const char* meaning;
  void (*read)(const Config& section);
};

/// Of the sections that every verb may find in a config, those that the harness reads.
std::span<const ConfigSection> ConfigSections();

/// Which keys are asked for. Empty texts: of all sections, of all plugins.
struct KeyRequest {
  std::string section;  // "training"; "env", "dataset" and "policy" include the params of plugins
  std::string env;      // names of plugins
  std::string dataset;
  std::string policy;
};

/// The keys of the harness's sections, then those of the plugins. Creates every plugin a few times.
/// Throws Error{kUsage} for a section that does not exist, Error{kPlugin} for such a plugin.
std::vector<config::KeySection> ConfigReference(const KeyRequest& request,
                                                plugin::PluginCatalogue& catalogue);

}  // namespace dp_bench::experiment
