// What a dataset has of one key, for expectations.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/dataset.h"

namespace dp_bench {

/// All steps of a key whose type is T.
template <class T>
std::vector<T> ReadAll(const Dataset& dataset, const std::string& name) {
  const int key = dataset.KeyIndex(name);
  const std::int64_t n = dataset.episode_ends().back();
  const KeySpec& spec = dataset.spec().keys[static_cast<std::size_t>(key)];
  std::vector<T> values(static_cast<std::size_t>(n * spec.NumElements()));
  dataset.Read(key, 0, n, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace dp_bench
