// The main function of a program with the tests of several folders or files. Its argument names
// one of them, relative to tests/ and without _test.cc: harness/task, integration/random_kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace {

/// The names of the tests of a part, in the syntax of GoogleTest's filter; empty if there are none.
std::string FilterOf(const std::filesystem::path& part) {
  const auto tests = std::filesystem::path(DPB_SOURCE_DIR) / "tests";
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string filter;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::filesystem::path file(test.file());
      if (file.parent_path() == tests / part || file == tests / (part.string() + "_test.cc")) {
        filter += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (argc == 2) {
    const std::string filter = FilterOf(argv[1]);
    if (filter.empty()) {
      std::fprintf(stderr, "no test in tests/%s\n", argv[1]);
      return 2;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
