// Known answers of RFC 3720, appendix B.4.
#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace dp_bench::core {
namespace {

TEST(Crc32c, GivesTheKnownAnswers) {
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  std::string descending = ascending;
  std::ranges::reverse(descending);

  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(Crc32c(ascending), 0x46DD794EU);
  EXPECT_EQ(Crc32c(descending), 0x113FDB5CU);
}

TEST(Crc32c, GivesTheKnownAnswerOfAnIscsiReadCommand) {
  std::string command(48, '\0');
  command[0] = '\x01';
  command[1] = '\xC0';
  command[16] = '\x14';
  command[22] = '\x04';
  command[27] = '\x14';
  command[31] = '\x18';
  command[32] = '\x28';
  command[40] = '\x02';
  EXPECT_EQ(Crc32c(command), 0xD9963A56U);
}

TEST(Crc32c, OfNothingIsZero) { EXPECT_EQ(Crc32c(""), 0U); }

}  // namespace
}  // namespace dp_bench::core
