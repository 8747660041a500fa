// Every value that the trace hash of an episode covers, step by step, and the file with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"

namespace dp_bench::run {

/// After n steps and k observations, the safetensors file contains:
///   action      [n, Da] float32       reward [n] float64      terminated, success [n] uint8
///   metrics     [n, M] float64        obs_step [k] int64, the steps executed before
///   obs.<key>   [k, shape...] of low-dimensional keys, in their dtype
///   obs_sha256.<key>  [k, 64] uint8: of images only the digest, in hexadecimal ASCII
class EpisodeTrace {
 public:
  /// Removes all steps. Keys are numbered as in `shape_meta`.
  void Start(const ShapeMeta& shape_meta, std::size_t n_metrics);

  /// Do not add a step that failed or reported a non-finite number, or any step after it.
  void AddStep(std::span<const float> action, const StepResult& result);

  /// Starts an observation. Add each of its keys once, in host layout.
  void AddObservation();
  void AddKey(int key, std::span<const std::byte> frame);

  ArrayMap ToArrays() const;

 private:
  /// An array that grows row by row.
  struct Column {
    DType dtype;
    Shape row_shape;
    std::vector<std::byte> bytes = {};
  };

  void Append(const std::string& name, std::span<const std::byte> row);
  template <class T>
  void AppendValues(const std::string& name, std::span<const T> row);

  std::vector<KeySpec> keys_;
  std::map<std::string, Column, std::less<>> columns_;
  std::int64_t n_steps_ = 0;
};

/// traces/<split>_<seed>.safetensors, relative to the run folder.
std::filesystem::path TraceFile(const std::string& split, std::uint64_t seed);

}  // namespace dp_bench::run
