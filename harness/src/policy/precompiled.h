// Headers that nearly every file with LibTorch includes, compiled once. Narrow on purpose: each
// file still pays for the templates that LibTorch's headers instantiate, and all of torch/torch.h
// costs twice as much.
#pragma once

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>
