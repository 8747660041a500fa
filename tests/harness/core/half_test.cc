// All float16 numbers, compared with the conversions of the processor.
#include "core/half.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace dp_bench::core {
namespace {

std::uint32_t Bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// every processor with AVX2, which dp_bench needs, has these two instructions
__attribute__((target("f16c"))) float Widened(std::uint16_t half) { return _cvtsh_ss(half); }
__attribute__((target("f16c"))) std::uint16_t Rounded(float value) {
  return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

TEST(Half, EveryFloat16HasTheValueThatTheProcessorGivesIt) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float expected = Widened(half);
    const float value = FromFloat16(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(Bits(value), Bits(expected)) << bits;
    }
  }
}

TEST(Half, ABfloat16IsTheUpperHalfOfAFloat32) {
  EXPECT_EQ(FromBfloat16(0x3F80), 1.0F);
  EXPECT_EQ(FromBfloat16(0xBDCD), -0.10009765625F);  // torch.tensor(-0.1).bfloat16()
  EXPECT_EQ(FromBfloat16(0x0001), 0x1p-133F);
  EXPECT_EQ(FromBfloat16(0xFF80), -INFINITY);
  EXPECT_TRUE(std::isnan(FromBfloat16(0x7FC0)));
}

// torch.tensor(value).bfloat16().view(torch.uint16), torch 2.13
TEST(Half, RoundsToBfloat16AsTorchDoes) {
  for (const auto& [value, bits] : {
           std::pair<float, int>{0.1F, 0x3DCD},
           std::pair<float, int>{-0.1F, 0xBDCD},
           std::pair<float, int>{1.0F, 0x3F80},
           std::pair<float, int>{1.00390625F, 0x3F80},
           std::pair<float, int>{1.01171875F, 0x3F82},
           std::pair<float, int>{1.0039063F, 0x3F80},
           std::pair<float, int>{0x1.fffffep+127F, 0x7F80},
           std::pair<float, int>{0x1.fep+127F, 0x7F7F},
           std::pair<float, int>{0x1.feffp+127F, 0x7F7F},
           std::pair<float, int>{0x1p-133F, 0x0001},
           std::pair<float, int>{0x1p-134F, 0x0000},
           std::pair<float, int>{0x1.8p-134F, 0x0001},
           std::pair<float, int>{0x1p-149F, 0x0000},
           std::pair<float, int>{-0.0F, 0x8000},
           std::pair<float, int>{65504.0F, 0x4780},
           std::pair<float, int>{-3.14159274F, 0xC049},
           std::pair<float, int>{INFINITY, 0x7F80},
           std::pair<float, int>{-INFINITY, 0xFF80},
       }) {
    EXPECT_EQ(ToBfloat16(value), bits) << value;
  }
  EXPECT_TRUE(std::isnan(FromBfloat16(ToBfloat16(NAN))));
}

TEST(Half, EveryFloat16SurvivesTheWayThereAndBack) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(FromFloat16(half))) {
      ASSERT_EQ(ToFloat16(FromFloat16(half)), half) << bits;
    }
  }
}

// the numbers where rounding changes: each float16, the middle to the next one, and their
// neighbours
TEST(Half, RoundsAsTheProcessorDoes) {
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const float low = FromFloat16(static_cast<std::uint16_t>(bits));
    const float high =
        bits == 0x7BFF ? 65536.0F : FromFloat16(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    for (const float value : {low, middle, std::nextafter(middle, 0.0F),
                              std::nextafter(middle, high), std::nextafter(high, 0.0F)}) {
      ASSERT_EQ(ToFloat16(value), Rounded(value)) << value;
      ASSERT_EQ(ToFloat16(-value), Rounded(-value)) << -value;
    }
  }
}

TEST(Half, NumbersWithoutAFloat16BecomeInfiniteAndNanStaysNan) {
  EXPECT_EQ(ToFloat16(1e30F), 0x7C00);
  EXPECT_EQ(ToFloat16(-INFINITY), 0xFC00);
  EXPECT_EQ(ToFloat16(1e-30F), 0);
  EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(NAN))));
}

}  // namespace
}  // namespace dp_bench::core
