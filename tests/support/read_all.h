// What a dataset has of one key, for expectations.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/error.h"

namespace dp_bench {

inline const KeySpec& SpecOf(const Dataset& dataset, std::string_view key) {
  return dataset.spec().keys[static_cast<std::size_t>(dataset.KeyIndex(key))];
}

/// Steps [begin, end) of a key whose type is T, or as bytes.
template <class T = std::byte>
std::vector<T> ReadSteps(const Dataset& dataset, std::string_view key, std::int64_t begin,
                         std::int64_t end) {
  const KeySpec& spec = SpecOf(dataset, key);
  DPB_ASSERT((std::is_same_v<T, std::byte>) || sizeof(T) == SizeOf(spec.dtype));
  std::vector<T> values(static_cast<std::size_t>(end - begin) * spec.ByteSize() / sizeof(T));
  dataset.Read(dataset.KeyIndex(key), begin, end, std::as_writable_bytes(std::span(values)));
  return values;
}

/// All steps.
template <class T = std::byte>
std::vector<T> ReadAll(const Dataset& dataset, std::string_view key) {
  return ReadSteps<T>(dataset, key, 0, dataset.episode_ends().back());
}

}  // namespace dp_bench
