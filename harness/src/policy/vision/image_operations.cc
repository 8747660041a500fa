// The changes of image_augmentation.h.
#include "policy/kernels/token_kernels.h"
#include "policy/vision/image_augmentation.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// Dimensions of images.
constexpr int kChannel = 2;
constexpr int kHeight = 3;
constexpr int kWidth = 4;

// One number per row, shaped to broadcast with images.
Tensor PerRow(const Tensor& values, const Tensor& images) {
  return values.to(images.device()).view({-1, 1, 1, 1, 1});
}

// images * factor + other * (1 - factor), clipped.
Tensor Blend(const Tensor& images, const Tensor& other, const Tensor& factor) {
  return (images * factor).add_(other * (1.0 - factor)).clamp_(0.0, 1.0);
}

// The luma of ITU-R BT.601, with torchvision's digits: [R, To, 1, H, W].
Tensor Grey(const Tensor& images) {
  const auto channel = [&images](std::int64_t i) { return images.narrow(kChannel, i, 1); };
  return (channel(0) * 0.2989).add_(channel(1) * 0.587).add_(channel(2) * 0.114);
}

// The pixels that are not on the border.
Tensor Inside(const Tensor& images) {
  return images.slice(kHeight, 1, images.size(kHeight) - 1)
      .slice(kWidth, 1, images.size(kWidth) - 1);
}

// x[i] + x[i + 1] + x[i + 2] along a dimension, which becomes shorter by two.
Tensor SumOfThree(const Tensor& x, int dim) {
  const std::int64_t n = x.size(dim) - 2;
  return (x.narrow(dim, 0, n) + x.narrow(dim, 1, n)).add_(x.narrow(dim, 2, n));
}

}  // namespace

Tensor AdjustBrightness(const Tensor& images, const Tensor& factor) {
  return (images * PerRow(factor, images)).clamp_(0.0, 1.0);
}

Tensor AdjustContrast(const Tensor& images, const Tensor& factor) {
  const Tensor mean = Grey(images).mean({kChannel, kHeight, kWidth}, /*keepdim=*/true,
                                        torch::kFloat64);  // [R, To, 1, 1, 1]
  return Blend(images, mean.to(torch::kFloat32), PerRow(factor, images));
}

Tensor AdjustSaturation(const Tensor& images, const Tensor& factor) {
  return Blend(images, Grey(images), PerRow(factor, images));
}

Tensor AdjustSharpness(const Tensor& images, const Tensor& factor) {
  Tensor result = images.clone();
  if (images.size(kHeight) <= 2 || images.size(kWidth) <= 2) return result;
  // the average of 3 x 3 pixels with a weight of five for the middle one
  const Tensor inside = Inside(images);
  const Tensor sum = SumOfThree(SumOfThree(images, kHeight), kWidth).add_(inside * 4.0);
  Inside(result).copy_(Blend(inside, sum.div_(13.0), PerRow(factor, images)));
  return result;
}

Tensor AdjustHue(const Tensor& images, const Tensor& shift) {
  const Tensor red = images.select(kChannel, 0);  // [R, To, H, W]
  const Tensor green = images.select(kChannel, 1);
  const Tensor blue = images.select(kChannel, 2);
  const Tensor max = images.amax(kChannel);
  const Tensor chroma = max - images.amin(kChannel);

  // the hue in sixths of a turn: 0 is red, 2 green, 4 blue; for grey it does not matter
  const Tensor divisor = torch::where(chroma == 0.0, torch::ones_like(chroma), chroma);
  const Tensor hue = torch::where(
      max == red, (green - blue) / divisor,
      torch::where(max == green, (blue - red) / divisor + 2.0, (red - green) / divisor + 4.0));
  const Tensor turned = hue + PerRow(shift, images).squeeze(kChannel) * 6.0;

  // back to RGB: a channel is at its minimum in the two sixths opposite its own hue, and rises and
  // falls over one sixth on either side
  const auto channel = [&](double offset) {
    const Tensor k = (turned + offset).remainder(6.0);
    return max - chroma * torch::minimum(k, 4.0 - k).clamp_(0.0, 1.0);
  };
  return torch::stack({channel(5.0), channel(3.0), channel(1.0)}, kChannel);
}

Tensor AdjustGamma(const Tensor& images, const Tensor& exponent) {
  const Tensor wide = images.to(torch::kFloat64).pow(PerRow(exponent, images).to(torch::kFloat64));
  return wide.to(torch::kFloat32).clamp_(0.0, 1.0);
}

Tensor BlackenRectangles(const Tensor& images, const Tensor& rectangles) {
  const Tensor edges = rectangles.to(images.device());
  const auto is_within = [&](int dim, std::int64_t begin) {
    const Tensor place = torch::arange(images.size(dim), edges.options());
    return (place >= edges.narrow(1, begin, 1)) & (place < edges.narrow(1, begin + 1, 1));
  };
  const Tensor is_hit = is_within(kHeight, 0).unsqueeze(2) & is_within(kWidth, 2).unsqueeze(1);
  return images.masked_fill(is_hit.unsqueeze(1).unsqueeze(1), 0.0);
}

Tensor AddGaussianNoise(const Tensor& images, const std::vector<std::uint64_t>& keys,
                        double sigma) {
  Tensor noise = torch::empty(images.sizes(), torch::kFloat32);
  FillGaussianFields(keys, images.size(1) * images.size(kChannel),
                     images.size(kHeight) * images.size(kWidth), noise.mutable_data_ptr<float>(),
                     at::get_num_threads());
  return (images + noise.to(images.device()).mul_(sigma)).clamp_(0.0, 1.0);
}

}  // namespace dp_bench::policy
