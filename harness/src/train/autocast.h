// Training in lower precision with LibTorch's autocast. Weights, gradients, optimizer and averages
// stay float32. Matrix products and convolutions of the forward pass, and therefore of the backward
// pass, run in bfloat16 or float16.
#pragma once

#include <torch/types.h>

#include <optional>

#include "train/train_config.h"

namespace dp_bench::train {

/// The type of the products; none for kNo.
std::optional<torch::ScalarType> ProductType(MixedPrecision precision);

/// Autocast on `device` while this object exists; no effect for kNo. Use it around the loss only:
/// the backward pass takes the types of the forward pass.
class Autocast {
 public:
  Autocast(torch::DeviceType device, MixedPrecision precision);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  torch::DeviceType device_;
  bool is_on_;
  bool was_on_;
  torch::ScalarType type_before_;
};

}  // namespace dp_bench::train
