// The config reference for the terminal and as a page.
#include "report/key_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp_bench::report {
namespace {

using testing::HasSubstr;

const config::KeySection kSection = {
    .name = "training",
    .meaning = "the loop",
    .keys = {{.pointer = "mode",
              .type = "string",
              .default_value = "\"a\"",
              .choices = {"a", "b"},
              .meaning = "a | b",
              .reader = "/home/x/dp_bench/harness/src/train/loop.cc"},
             {.pointer = "n", .type = "integer", .default_value = "none", .range = "0 to 9"}}};

TEST(KeyTable, AlignsItsColumns) {
  EXPECT_EQ(KeyTable(kSection),
            "training: the loop\n"
            "  mode  one of a, b      \"a\"   a | b\n"
            "  n     integer, 0 to 9  none\n");
}

TEST(KeyPage, LinksTheSourceFileOfEachKey) {
  const std::string page = KeyPage({kSection});
  EXPECT_THAT(page, HasSubstr("## training\n\nthe loop\n"));
  EXPECT_THAT(page, HasSubstr("| `mode` | one of a, b | `\"a\"` | a \\| b | "
                              "[loop.cc](../harness/src/train/loop.cc) |\n"));
  EXPECT_THAT(page, HasSubstr("| `n` | integer, 0 to 9 | none |  |  |\n"));
}

}  // namespace
}  // namespace dp_bench::report
