#include "profile/machine_limits.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "core/clock.h"
#include "policy/device.h"

namespace dp_bench::profile {
namespace {

// Rows and columns of a product. On a GPU, a small one takes less time than its launch.
constexpr std::int64_t kProbeSize = 256;  // tells whether a type is slow on this processor
constexpr std::int64_t kProductSize = 1024;
constexpr std::int64_t kProductSizeOnGpu = 4096;
constexpr int kRounds = 4;
constexpr double kSecondsEach = 0.04;  // per round

// The shortest time of `work` after a warm-up [s]. Other load on the machine only makes it longer.
double LeastSeconds(torch::Device device, const std::function<void()>& work) {
  work();
  double least = std::numeric_limits<double>::infinity();
  for (double spent = 0.0; spent < kSecondsEach;) {
    const auto start = std::chrono::steady_clock::now();
    work();
    policy::Synchronize(device);
    const double seconds = core::SecondsSince(start);
    spent += seconds;
    least = std::min(least, seconds);
  }
  return least;
}

double ProductRate(torch::Device device, torch::ScalarType type, std::int64_t size) {
  const bool is_int8 = type == torch::kInt8;
  const auto options = torch::TensorOptions(device).dtype(type);
  const torch::Tensor a = torch::ones({size, size}, options);
  const torch::Tensor b = torch::ones({size, size}, options);
  torch::Tensor c = torch::empty({size, size}, is_int8 ? options.dtype(torch::kInt32) : options);
  const auto n = static_cast<double>(size);
  const auto multiply = [&] { is_int8 ? at::_int_mm_out(c, a, b) : at::mm_out(c, a, b); };
  return 2.0 * n * n * n / LeastSeconds(device, multiply);
}

}  // namespace

MachineLimits MeasureMachineLimits(c10::Device device) {
  const torch::NoGradGuard no_grad;
  MachineLimits limits = {.n_threads = at::get_num_threads()};
  const std::int64_t size = device.is_cuda() ? kProductSizeOnGpu : kProductSize;
  const auto size_for = [&](torch::ScalarType type) {
    // Without instructions for it, a type can take 100 times as long as float32.
    const bool is_slow =
        device.is_cpu() && ProductRate(device, type, kProbeSize) <
                               0.5 * ProductRate(device, torch::kFloat32, kProbeSize);
    return is_slow ? kProbeSize : size;
  };
  const std::int64_t bfloat16_size = size_for(torch::kBFloat16);
  const std::int64_t int8_size = size_for(torch::kInt8);
  const auto raise = [](double* limit, double found) { *limit = std::max(*limit, found); };
  // in rounds, so that a short burst of other load does not hit only one of them
  for (int round = 0; round < kRounds; ++round) {
    raise(&limits.float32_flops, ProductRate(device, torch::kFloat32, size));
    raise(&limits.bfloat16_flops, ProductRate(device, torch::kBFloat16, bfloat16_size));
    if (device.is_cpu()) {
      raise(&limits.int8_flops, ProductRate(device, torch::kInt8, int8_size));
    }
  }
  return limits;
}

double MeasureReadRate(c10::Device device, std::int64_t n_bytes) {
  const torch::NoGradGuard no_grad;
  const std::int64_t n_numbers = n_bytes / static_cast<std::int64_t>(sizeof(float));
  const torch::Tensor numbers = torch::ones({n_numbers}, torch::TensorOptions(device));
  torch::Tensor sum = torch::zeros({}, torch::TensorOptions(device));
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    least = std::min(least, LeastSeconds(device, [&] { at::sum_out(sum, numbers); }));
  }
  return static_cast<double>(n_bytes) / least;
}

}  // namespace dp_bench::profile
