#include <gtest/gtest.h>

#include <memory>

#include "support/ranks.h"

namespace dp_bench {
namespace {

std::unique_ptr<core::Communicator> test_ranks;

}  // namespace

core::Communicator& TestRanks() { return *test_ranks; }

}  // namespace dp_bench

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  dp_bench::test_ranks = dp_bench::core::ConnectRanks();
  const int result = dp_bench::test_ranks->AllReduceMax(RUN_ALL_TESTS());
  dp_bench::test_ranks.reset();
  return result;
}
