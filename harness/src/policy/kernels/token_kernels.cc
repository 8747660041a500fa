// See token_kernels.h. The compiler vectorizes the reductions along a row.
#include "policy/kernels/token_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dp_bench/random.h"
#include "policy/kernels/vector_math.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kBlockRows = 64;  // rows whose sums are taken together

std::int64_t BlockCount(std::int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

// Calls body(block, begin, end) for blocks of rows. The assignment of blocks to threads does not
// change the result.
template <class Body>
void ForEachBlock(std::int64_t rows, std::int64_t width, int n_threads, const Body& body) {
  const int n = UsefulThreads(rows * width, n_threads);
  const std::int64_t n_blocks = BlockCount(rows);
#pragma omp parallel for num_threads(n) if (n > 1)
  for (std::int64_t block = 0; block < n_blocks; ++block) {
    body(block, block * kBlockRows, std::min(rows, (block + 1) * kBlockRows));
  }
}

// Sums over rows: one partial row of [n_blocks, size] per block, added in order at the end.
class BlockSums {
 public:
  BlockSums(std::int64_t n_blocks, std::int64_t size)
      : size_(size), values_(static_cast<std::size_t>(n_blocks * size)) {}

  float* Row(std::int64_t block) { return values_.data() + block * size_; }

  // Elements [begin, begin + n) of the sum over all blocks' rows.
  void Collect(std::int64_t begin, std::int64_t n, float* out) const {
    std::fill_n(out, n, 0.0F);
    for (auto row = values_.begin(); row != values_.end(); row += size_) {
      for (std::int64_t i = 0; i < n; ++i) out[i] += row[begin + i];
    }
  }

 private:
  std::int64_t size_;
  std::vector<float> values_;
};

// A sum over a row: element i goes to lane i % kSumLanes, and the lanes are added in order at the
// end. So the bits do not depend on the vectors of the machine.
constexpr std::int64_t kSumLanes = 16;

// The sum of value(i) for i < n.
template <class Value>
DPB_ALWAYS_INLINE float SumOver(std::int64_t n, const Value& value) {
  float lanes[kSumLanes] = {};
  std::int64_t begin = 0;
  for (; begin + kSumLanes <= n; begin += kSumLanes) {
    for (std::int64_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] += value(begin + lane);
  }
  for (std::int64_t i = begin; i < n; ++i) lanes[i - begin] += value(i);
  float total = 0.0F;
  for (const float lane : lanes) total += lane;
  return total;
}

DPB_ALWAYS_INLINE void NormalizeRow(std::int64_t n, float eps, const float* __restrict sum,
                                    const float* __restrict gamma, const float* __restrict beta,
                                    float* __restrict normed, float* mean_out, float* rstd_out) {
  const float mean = SumOver(n, [=](std::int64_t i) { return sum[i]; }) / static_cast<float>(n);
  const float squares =
      SumOver(n, [=](std::int64_t i) { return (sum[i] - mean) * (sum[i] - mean); });
  const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) normed[i] = (sum[i] - mean) * rstd * gamma[i] + beta[i];
  *mean_out = mean;
  *rstd_out = rstd;
}

DPB_ALWAYS_INLINE void AddRow(std::int64_t n, const float* __restrict x,
                              const float* __restrict branch, const float* __restrict bias,
                              float* __restrict sum) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sum[i] = x[i] + (branch[i] + bias[i]);
}

DPB_VECTOR_VERSIONS
void AddNormForwardBlock(const AddNormForward& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = args.width;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* sum = args.x + row * n;
    if (args.branch != nullptr) {
      AddRow(n, sum, args.branch + row * n, args.bias, args.sum + row * n);
      sum = args.sum + row * n;
    }
    NormalizeRow(n, args.eps, sum, args.gamma, args.beta, args.normed + row * n, args.mean + row,
                 args.rstd + row);
  }
}

DPB_ALWAYS_INLINE void AddNormBackwardRow(std::int64_t n, const float* __restrict sum,
                                          const float* __restrict gamma, float mean, float rstd,
                                          const float* __restrict grad_sum,
                                          const float* __restrict grad_normed,
                                          float* __restrict grad_x, float* __restrict grad_gamma,
                                          float* __restrict grad_beta,
                                          float* __restrict grad_bias) {
  float mean_grad = 0.0F;
  float mean_product = 0.0F;
#pragma omp simd reduction(+ : mean_grad, mean_product)
  for (std::int64_t i = 0; i < n; ++i) {
    const float xhat = (sum[i] - mean) * rstd;
    const float grad = grad_normed[i] * gamma[i];
    grad_gamma[i] += grad_normed[i] * xhat;
    grad_beta[i] += grad_normed[i];
    mean_grad += grad;
    mean_product += grad * xhat;
  }
  mean_grad /= static_cast<float>(n);
  mean_product /= static_cast<float>(n);
  if (grad_sum == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const float xhat = (sum[i] - mean) * rstd;
      grad_x[i] = rstd * (grad_normed[i] * gamma[i] - mean_grad - xhat * mean_product);
      grad_bias[i] += grad_x[i];
    }
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float xhat = (sum[i] - mean) * rstd;
    const float grad = rstd * (grad_normed[i] * gamma[i] - mean_grad - xhat * mean_product);
    grad_x[i] = grad + grad_sum[i];
    grad_bias[i] += grad_x[i];
  }
}

// `sums` has 3 * width elements: of gamma, beta and bias.
DPB_VECTOR_VERSIONS
void AddNormBackwardBlock(const AddNormBackward& args, std::int64_t begin, std::int64_t end,
                          float* sums) {
  const std::int64_t n = args.width;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* grad_sum = args.grad_sum == nullptr ? nullptr : args.grad_sum + row * n;
    AddNormBackwardRow(n, args.sum + row * n, args.gamma, args.mean[row], args.rstd[row], grad_sum,
                       args.grad_normed + row * n, args.grad_x + row * n, sums, sums + n,
                       sums + 2 * n);
  }
}

template <class Function>
DPB_ALWAYS_INLINE void ActivateRows(const BiasActivationForward& args, std::int64_t begin,
                                    std::int64_t end) {
  const float* __restrict bias = args.bias;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = args.x + row * args.width;
    float* y = args.y + row * args.width;
#pragma omp simd
    for (std::int64_t i = 0; i < args.width; ++i) y[i] = Function::At(x[i] + bias[i]).value;
  }
}

DPB_VECTOR_VERSIONS
void BiasActivationForwardBlock(const BiasActivationForward& args, std::int64_t begin,
                                std::int64_t end) {
  if (args.activation == Activation::kGelu) {
    ActivateRows<Gelu>(args, begin, end);
  } else {
    ActivateRows<Relu>(args, begin, end);
  }
}

template <class Function>
DPB_ALWAYS_INLINE void ReturnRows(const BiasActivationBackward& args, std::int64_t begin,
                                  std::int64_t end, float* grad_bias) {
  const float* __restrict bias = args.bias;
  float* __restrict sums = grad_bias;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* __restrict x = args.x + row * args.width;
    const float* __restrict grad_y = args.grad_y + row * args.width;
    float* __restrict grad_x = args.grad_x + row * args.width;
#pragma omp simd
    for (std::int64_t i = 0; i < args.width; ++i) {
      const float grad = grad_y[i] * Function::At(x[i] + bias[i]).slope;
      grad_x[i] = grad;
      sums[i] += grad;
    }
  }
}

DPB_VECTOR_VERSIONS
void BiasActivationBackwardBlock(const BiasActivationBackward& args, std::int64_t begin,
                                 std::int64_t end, float* grad_bias) {
  if (args.activation == Activation::kGelu) {
    ReturnRows<Gelu>(args, begin, end, grad_bias);
  } else {
    ReturnRows<Relu>(args, begin, end, grad_bias);
  }
}

constexpr int kPhiloxLanes = 16;
constexpr int kWords = 4;
constexpr std::int64_t kElementsPerGroup = kPhiloxLanes * kWords * 2;

// Philox4x32-10 (Salmon et al. 2011) at kPhiloxLanes successive counters.
DPB_ALWAYS_INLINE void PhiloxGroup(std::uint32_t first, std::uint32_t site, std::uint64_t key,
                                   std::uint32_t (*words)[kPhiloxLanes]) {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32U);
  for (std::uint32_t lane = 0; lane < kPhiloxLanes; ++lane) {
    words[0][lane] = first + lane;
    words[1][lane] = site;
    words[2][lane] = 0;
    words[3][lane] = 0;
  }
  for (int round = 0; round < 10; ++round) {
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * words[0][lane];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * words[2][lane];
      words[0][lane] = static_cast<std::uint32_t>(p1 >> 32U) ^ words[1][lane] ^ key0;
      words[1][lane] = static_cast<std::uint32_t>(p1);
      words[2][lane] = static_cast<std::uint32_t>(p0 >> 32U) ^ words[3][lane] ^ key1;
      words[3][lane] = static_cast<std::uint32_t>(p0);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

DPB_VECTOR_VERSIONS
void DropoutRow(std::uint64_t key, std::uint32_t site, std::int64_t row_size,
                std::uint32_t threshold, float scale, float* out) {
  std::uint32_t words[kWords][kPhiloxLanes];
  float group[kElementsPerGroup];
  for (std::int64_t begin = 0; begin < row_size; begin += kElementsPerGroup) {
    PhiloxGroup(static_cast<std::uint32_t>(begin / (kWords * 2)), site, key, words);
    for (int word = 0; word < kWords; ++word) {
      float* __restrict low = group + 2 * word * kPhiloxLanes;
      float* __restrict high = low + kPhiloxLanes;
      for (int lane = 0; lane < kPhiloxLanes; ++lane) {
        low[lane] = (words[word][lane] & 0xFFFFU) < threshold ? 0.0F : scale;
        high[lane] = (words[word][lane] >> 16U) < threshold ? 0.0F : scale;
      }
    }
    const std::int64_t n = std::min(kElementsPerGroup, row_size - begin);
    std::memcpy(out + begin, group, static_cast<std::size_t>(n) * sizeof(float));
  }
}

}  // namespace

void RunAddNormForward(const AddNormForward& args, int n_threads) {
  ForEachBlock(args.rows, args.width, n_threads,
               [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                 AddNormForwardBlock(args, begin, end);
               });
}

void RunAddNormBackward(const AddNormBackward& args, int n_threads) {
  BlockSums sums(BlockCount(args.rows), 3 * args.width);
  ForEachBlock(args.rows, args.width, n_threads,
               [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
                 AddNormBackwardBlock(args, begin, end, sums.Row(block));
               });
  sums.Collect(0, args.width, args.grad_gamma);
  sums.Collect(args.width, args.width, args.grad_beta);
  sums.Collect(2 * args.width, args.width, args.grad_bias);
}

void RunBiasActivationForward(const BiasActivationForward& args, int n_threads) {
  ForEachBlock(args.rows, args.width, n_threads,
               [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                 BiasActivationForwardBlock(args, begin, end);
               });
}

void RunBiasActivationBackward(const BiasActivationBackward& args, int n_threads) {
  BlockSums sums(BlockCount(args.rows), args.width);
  ForEachBlock(args.rows, args.width, n_threads,
               [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
                 BiasActivationBackwardBlock(args, begin, end, sums.Row(block));
               });
  sums.Collect(0, args.width, args.grad_bias);
}

void RunDropout(std::span<const std::uint64_t> keys, std::uint32_t site, std::int64_t row_size,
                std::uint32_t threshold, float scale, float* out, int n_threads) {
  const auto rows = static_cast<std::int64_t>(keys.size());
  const int n = UsefulThreads(rows * row_size, n_threads);
#pragma omp parallel for num_threads(n) if (n > 1)
  for (std::int64_t row = 0; row < rows; ++row) {
    DropoutRow(keys[static_cast<std::size_t>(row)], site, row_size, threshold, scale,
               out + row * row_size);
  }
}

void FillGaussianFields(const std::vector<std::uint64_t>& keys, std::int64_t planes,
                        std::int64_t plane_size, float* out, int n_threads) {
  const std::int64_t n_tasks = static_cast<std::int64_t>(keys.size()) * planes;
#pragma omp parallel for num_threads(n_threads) if (n_threads > 1)
  for (std::int64_t task = 0; task < n_tasks; ++task) {
    const std::uint64_t key = keys[static_cast<std::size_t>(task / planes)];
    RandomStream stream(key, StreamId::kAugment, static_cast<std::uint64_t>(task % planes));
    float* plane = out + task * plane_size;
    for (std::int64_t i = 0; i < plane_size; ++i) plane[i] = stream.Normal();
  }
}

}  // namespace dp_bench::policy
