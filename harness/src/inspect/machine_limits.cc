// See machine_limits.h. The triad is McCalpin's: three arrays, each far larger than a cache.
#include "inspect/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "core/device.h"

namespace dp_bench::inspect {
namespace {

// Rows and columns of a product. On a GPU, a small one takes less time than its launch.
constexpr std::int64_t kProductSize = 1024;
constexpr std::int64_t kProductSizeOnGpu = 4096;
constexpr std::int64_t kTriadSize = std::int64_t{1} << 24;  // numbers, 64 MiB
constexpr int kRounds = 4;
constexpr double kSecondsEach = 0.04;  // per round

// The shortest time of `work` after a warm-up [s]. Other load on the machine only makes it longer.
double LeastSeconds(torch::Device device, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();
  double least = std::numeric_limits<double>::infinity();
  for (double spent = 0.0; spent < kSecondsEach;) {
    const auto start = Clock::now();
    work();
    core::Synchronize(device);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    spent += seconds;
    least = std::min(least, seconds);
  }
  return least;
}

double ProductRate(torch::Device device, torch::ScalarType type) {
  const std::int64_t size = device.is_cuda() ? kProductSizeOnGpu : kProductSize;
  const auto options = torch::TensorOptions(device).dtype(type);
  const torch::Tensor a = torch::ones({size, size}, options);
  const torch::Tensor b = torch::ones({size, size}, options);
  torch::Tensor c = torch::empty({size, size}, options);
  const auto n = static_cast<double>(size);
  return 2.0 * n * n * n / LeastSeconds(device, [&] { at::mm_out(c, a, b); });
}

double TriadRate(torch::Device device) {
  const auto options = torch::TensorOptions(device).dtype(torch::kFloat32);
  const torch::Tensor b = torch::ones({kTriadSize}, options);
  const torch::Tensor c = torch::ones({kTriadSize}, options);
  torch::Tensor a = torch::empty({kTriadSize}, options);
  const double bytes = 3.0 * sizeof(float) * static_cast<double>(kTriadSize);
  return bytes / LeastSeconds(device, [&] { at::add_out(a, b, c, 3.0); });
}

}  // namespace

MachineLimits MeasureMachineLimits(torch::Device device) {
  const torch::NoGradGuard no_grad;
  MachineLimits limits = {.n_threads = at::get_num_threads()};
  const auto raise = [](double* limit, double found) { *limit = std::max(*limit, found); };
  // in rounds, so that a short burst of other load does not hit only one of them
  for (int round = 0; round < kRounds; ++round) {
    raise(&limits.float32_flops, ProductRate(device, torch::kFloat32));
    raise(&limits.bfloat16_flops, ProductRate(device, torch::kBFloat16));
    raise(&limits.bytes_per_second, TriadRate(device));
  }
  return limits;
}

}  // namespace dp_bench::inspect
