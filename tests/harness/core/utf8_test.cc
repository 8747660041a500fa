#include "core/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace dp_bench::core {
namespace {

TEST(Utf8, CharactersOfEachLengthAreText) {
  for (const char* text : {"", "a", "\x7f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000",
                           "\uffff", "\U00010000", "\U0010ffff", "a\u20ac\U0001f916b"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  EXPECT_TRUE(IsUtf8(std::string(1, '\0')));
}

TEST(Utf8, OtherBytesAreNotText) {
  for (const char* text :
       {"\x80", "\xbf", "a\xc3", "\xc0\x80", "\xc1\xbf", "\xc3\x28", "\xe2\x82", "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xed\xbf\xbf", "\xe2\x28\xa1", "\xe2\x82\x28", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf0\x9f\xa4", "\xf0\x9f\xa4\x28", "\xff"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

}  // namespace
}  // namespace dp_bench::core
