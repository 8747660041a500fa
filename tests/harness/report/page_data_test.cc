#include "report/page_data.h"

#include <gtest/gtest.h>

namespace dp_bench::report {
namespace {

TEST(LinkTo, EncodesWhatAUrlWouldTakeForSomethingElse) {
  EXPECT_EQ(LinkTo("media/test_1.mp4"), "./media/test_1.mp4");
  EXPECT_EQ(LinkTo("../my run/a#b?c.mp4"), "./../my%20run/a%23b%3Fc.mp4");
  EXPECT_EQ(LinkTo("javascript:x"), "./javascript%3Ax");
  EXPECT_EQ(LinkTo("epoch=0100/\"é"), "./epoch=0100/%22%C3%A9");
}

}  // namespace
}  // namespace dp_bench::report
