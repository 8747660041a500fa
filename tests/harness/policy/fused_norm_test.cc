#include "policy/kernels/fused_norm.h"

#include <tuple>

#include "harness/policy/gradient_check.h"

namespace dp_bench::policy {
namespace {

constexpr double kEps = 1e-5;

// LibTorch's operators on [B, C, T].
torch::Tensor Reference(const torch::Tensor& x, const NormInputs& in, std::int64_t n_groups) {
  const std::int64_t channels = x.size(0);
  torch::Tensor y = (x + in.bias.view({-1, 1, 1})).permute({2, 0, 1});
  y = torch::mish(torch::group_norm(y, n_groups, in.gamma, in.beta, kEps)).permute({1, 2, 0});
  if (in.film.defined()) {
    const torch::Tensor film = in.film.unsqueeze(1);  // [2C or C, 1, B]
    y = film.size(0) == channels
            ? y + film
            : y * film.narrow(0, 0, channels) + film.narrow(0, channels, channels);
  }
  return in.residual.defined() ? y + in.residual : y;
}

// rows of film per channel (0: none), residual, T, B
class FusedNormShapes
    : public testing::TestWithParam<std::tuple<int, bool, std::int64_t, std::int64_t>> {};

TEST_P(FusedNormShapes, EqualsLibTorchWithGradients) {
  constexpr std::int64_t kChannels = 12;
  const auto [film_rows, has_residual, steps, batch] = GetParam();
  torch::manual_seed(2);
  const torch::Tensor x = (torch::randn({kChannels, steps, batch}) * 2.0 + 1.0).requires_grad_();
  NormInputs in = {.bias = torch::randn(kChannels).requires_grad_(),
                   .gamma = torch::randn(kChannels).requires_grad_(),
                   .beta = torch::randn(kChannels).requires_grad_(),
                   .film = {},
                   .residual = {}};
  std::vector<torch::Tensor> inputs = {x, in.bias, in.gamma, in.beta};
  if (film_rows > 0) {
    in.film = torch::randn({film_rows * kChannels, batch}).requires_grad_();
    inputs.push_back(in.film);
  }
  if (has_residual) {
    in.residual = torch::randn({kChannels, steps, batch}).requires_grad_();
    inputs.push_back(in.residual);
  }
  ExpectEqualWithGradients(NormMishFilm(x, in, 4, kEps), Reference(x, in, 4), inputs);
}

// batches below 16 share vectors between time steps; 64 and more are processed in blocks
INSTANTIATE_TEST_SUITE_P(Shapes, FusedNormShapes,
                         testing::Values(std::tuple{2, false, 4, 1}, std::tuple{2, false, 16, 5},
                                         std::tuple{0, true, 8, 15}, std::tuple{1, true, 4, 16},
                                         std::tuple{2, true, 4, 50}, std::tuple{2, false, 3, 130},
                                         std::tuple{0, false, 1, 64}));

TEST(FusedNorm, LargeAndSmallValuesStayFinite) {
  const torch::Tensor x = torch::tensor({-1.0F, 0.0F, 1.0F, 1.0F}).view({4, 1, 1});
  NormInputs in = {.bias = torch::zeros(4),
                   .gamma = torch::full(4, 1e4),
                   .beta = torch::zeros(4),
                   .film = {},
                   .residual = {}};
  const torch::NoGradGuard no_grad;
  const torch::Tensor y = NormMishFilm(x, in, 1, kEps);
  EXPECT_LE(RelativeDifference(y, Reference(x, in, 1)), kRounding);
}

TEST(FusedNorm, NotANumberStaysVisible) {
  const torch::Tensor x = torch::full({4, 2, 1}, std::numeric_limits<float>::quiet_NaN());
  NormInputs in = {.bias = torch::zeros(4),
                   .gamma = torch::ones(4),
                   .beta = torch::zeros(4),
                   .film = {},
                   .residual = {}};
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(NormMishFilm(x, in, 2, kEps).isnan().all().item<bool>());
}

}  // namespace
}  // namespace dp_bench::policy
