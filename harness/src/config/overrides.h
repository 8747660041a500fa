// Dotted overrides of the command line, "training.lr=1e-4".
#pragma once

#include <string>
#include <string_view>

#include "config/json_source.h"

namespace dp_bench {

/// Sets one key. The value is JSON, or else a string; a key that holds a string takes the text as
/// it is. Throws Error{kUsage} without "=" and Error{kConfig} when the type differs from the
/// existing value's (a number stays a number, an object an object; null goes either way).
void ApplyOverride(const std::string& override_text, JsonSource* source);

/// Whether a key with this origin was set by an override.
bool IsOverrideOrigin(std::string_view origin);

}  // namespace dp_bench
