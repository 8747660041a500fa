#include <gtest/gtest.h>

#include "run/manifest.h"

namespace dp_bench::run {
namespace {

TEST(OutcomeClass, WithoutImagesIsThatOfAllProcessorsWithAvx2AndFma) {
  OutcomeConditions conditions = {.device = "cpu", .cpu = "a", .has_avx2_and_fma = true};
  const std::string of_a = OutcomeClass(conditions);
  EXPECT_EQ(of_a, "no pictures, x86-64 with AVX2 and FMA");
  conditions.cpu = "b";
  EXPECT_EQ(OutcomeClass(conditions), of_a);
}

TEST(OutcomeClass, WithImagesOnADeviceOrOnOldProcessorsIsThatOfOneProcessor) {
  EXPECT_EQ(
      OutcomeClass({.device = "cpu", .cpu = "a", .has_avx2_and_fma = true, .has_images = true}),
      "pictures, a");
  EXPECT_EQ(OutcomeClass({.device = "cpu", .cpu = "a"}), "no pictures, a");
  EXPECT_EQ(OutcomeClass({.device = "NVIDIA H200", .cpu = "a", .has_avx2_and_fma = true}),
            "no pictures, NVIDIA H200, a");
}

TEST(OutcomeClass, OfAManifestWithoutOneIsEmpty) {
  EXPECT_EQ(OutcomeClassOf(R"({"outcome_class": "x"})"), "x");
  EXPECT_EQ(OutcomeClassOf("{}"), "");
  EXPECT_EQ(OutcomeClassOf(R"({"outcome_class": 1})"), "");
  EXPECT_EQ(OutcomeClassOf("no JSON"), "");
}

}  // namespace
}  // namespace dp_bench::run
