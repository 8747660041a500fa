#include "core/json_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

using testing::HasSubstr;

TEST(JsonLog, APipeOrADeviceOfItsNameIsRefusedAtOnce) {
  const ScratchFolder scratch;
  const auto pipe = scratch.path() / "logs.json.txt";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { JsonLog(pipe, 0); }),
              HasSubstr("is not a regular file"));
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [] { JsonLog("/dev/null", 0); }),
              HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace dp_bench::core
