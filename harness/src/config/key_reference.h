// Every key that a piece of code reads, found by letting it read: there is no second list of keys.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/document.h"
#include "dp_bench/config.h"

namespace dp_bench::config {

/// A part of a config and its keys.
struct KeySection {
  std::string name;
  std::string meaning;
  std::vector<KeyRead> keys;
};

/// The keys that `read` reads, in the order of its reads. `read` gets an empty config first, then
/// configs that hold what it asked about: each choice of a key, objects and lists that may be left
/// out, and a key "<name>" where the config chooses the keys. What it throws is ignored. Places are
/// as in a message: "topk.mode", and "param_groups[].pattern" in a list.
std::vector<KeyRead> FindKeys(const std::function<void(const Config&)>& read);

/// Adds the keys of `more` that `keys` lacks, each behind the key that it follows in `more`.
void MergeKeys(const std::vector<KeyRead>& more, std::vector<KeyRead>* keys);

}  // namespace dp_bench::config
