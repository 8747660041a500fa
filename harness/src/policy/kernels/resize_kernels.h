// Bilinear resizing of images. LibTorch's takes another way for one thread than for several, with
// other low bits; here an element has the same bits with any number of threads, on any CPU.
#pragma once

#include <cstdint>

namespace dp_bench::policy {

/// y = torch.nn.functional.interpolate(x, mode="bilinear", align_corners=False), with the bits that
/// LibTorch computes with several threads. Both arrays are dense.
struct BilinearResize {
  std::int64_t batch;
  std::int64_t channels;
  std::int64_t in_height;
  std::int64_t in_width;
  std::int64_t out_height;
  std::int64_t out_width;
  const float* x;  // [B, H, W, C]
  float* y;        // [B, H', W', C]
};

void RunBilinearResize(const BilinearResize& args, int n_threads);

}  // namespace dp_bench::policy
