// Fields of normally distributed numbers for image noise, each identified by a key. Does not use
// LibTorch. The loop runs on several threads; which thread draws what does not change the result.
#pragma once

#include <cstdint>
#include <vector>

namespace dp_bench::policy {

/// Fills out, [keys, planes, plane_size], with N(0, 1): plane p of key k is the stream
/// RandomStream(k, StreamId::kAugment, p).
void FillGaussianFields(const std::vector<std::uint64_t>& keys, std::int64_t planes,
                        std::int64_t plane_size, float* out, int n_threads);

}  // namespace dp_bench::policy
