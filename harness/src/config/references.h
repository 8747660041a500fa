// References in the strings of a config, as in OmegaConf, which diffusion_policy uses:
//   "${policy.params.n_emb}"         the value of another key, with its JSON type
//   "${eval: ${horizon} // 2 - 1}"   a number computed from others
//   "unet_${horizon}"                inside a longer string: as text
//   "$${"                            the characters "${"
// Config files are untrusted: depth, size and number of values are limited.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "config/json_source.h"

namespace dp_bench::config {

/// Replaces every reference by its value and notes the texts in `source->references`. A reference
/// names a key from the root of the config, with dots; a number selects an element of a list. A key
/// that the config does not have is looked for in `defaults(config)`, which is called at most once.
///
/// Arithmetic has + - * / // % and parentheses, with Python's rules for // and %. Integers stay
/// integers, also in a division without remainder.
///
/// Throws Error{kConfig} for a key that does not exist, a cycle, a division by zero and a syntax
/// error. The message names file, line and key of the reference and of all references that lead to
/// it.
using DefaultsOf = std::function<nlohmann::json(const nlohmann::json& config)>;
void ResolveReferences(JsonSource* source, const DefaultsOf& defaults = {});

/// Whether the value is a string with a reference.
bool HasReference(const nlohmann::json& value);

/// Text that resolves to `text`.
std::string EscapeReferences(std::string_view text);

/// The same for every string below `value`.
void EscapeReferences(nlohmann::json* value);

}  // namespace dp_bench::config
