#include <gtest/gtest.h>

#include <fstream>

#include "plugin/worker_process.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;

TEST(UnchangedFiles, AFileThatIsReplacedIsRefused) {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "plugin.so";
  std::ofstream(file) << "one";
  RequireUnchanged(file);
  RequireUnchanged(file);
  const fs::path other = scratch.path() / "other.so";
  std::ofstream(other) << "two";
  fs::rename(other, file);
  EXPECT_NE(MessageOf(ErrorCode::kPlugin, [&] { RequireUnchanged(file); }).find("was replaced"),
            std::string::npos);
}

TEST(UnchangedFiles, TheLibraryIsFound) { EXPECT_TRUE(fs::exists(OwnLibrary())) << OwnLibrary(); }

}  // namespace
}  // namespace dp_bench::plugin
