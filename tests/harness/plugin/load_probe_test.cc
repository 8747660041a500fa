// A plugin file is tried in a child process before it is loaded: what its static constructors do
// there never reaches the host.
#include "plugin/load_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "plugin/catalogue.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

const fs::path& ConstructedFile() {
  static const fs::path file =
      fs::path(DPB_BROKEN_PLUGIN_DIR) / "constructor" / "libdpb_env_constructed.so";
  return file;
}

// The constructor does `kind` while this object exists, and nothing is remembered from before.
class LoadProbe : public testing::Test {
 protected:
  LoadProbe() { setenv("XDG_CACHE_HOME", scratch_.path().c_str(), 1); }
  ~LoadProbe() override {
    unsetenv("XDG_CACHE_HOME");
    unsetenv("DPB_TEST_CONSTRUCTOR");
  }

  static std::string EndingOf(const char* kind, milliseconds limit = milliseconds(60000)) {
    setenv("DPB_TEST_CONSTRUCTOR", kind, 1);
    return ProbeLoading(ConstructedFile(), "dp_bench_plugin", limit).value_or("not tried");
  }

  fs::path memory() const { return scratch_.path() / "dp_bench" / "loadable_plugins"; }

  const ScratchFolder scratch_;
};

TEST_F(LoadProbe, SaysHowAConstructorEndedItsProcess) {
  EXPECT_EQ(EndingOf("exit"), "exited with code 0");
  EXPECT_EQ(EndingOf("quick_exit"), "exited with code 0");
  EXPECT_EQ(EndingOf("bare_exit"), "exited with code 0");
  EXPECT_EQ(EndingOf("segv"), "died with signal 11 (SIGSEGV)");
  EXPECT_EQ(EndingOf("throw"), "threw no licence");
  EXPECT_EQ(EndingOf("hang", milliseconds(200)), "did not end within 0.2 s");
  EXPECT_EQ(EndingOf("nothing"), "");
}

TEST_F(LoadProbe, AFileThatTheLoaderRefusesIsLeftToTheLoadersReason) {
  const fs::path file = fs::path(DPB_BROKEN_PLUGIN_DIR) / "unresolved" / "libdpb_env_unresolved.so";
  EXPECT_EQ(ProbeLoading(file, "dp_bench_plugin", milliseconds(60000)), std::nullopt);
}

TEST_F(LoadProbe, ABadConstructorRefusesItsFileAndNoOther) {
  setenv("DPB_TEST_CONSTRUCTOR", "exit", 1);
  PluginCatalogue catalogue(
      {fs::path(DPB_BROKEN_PLUGIN_DIR) / "good", ConstructedFile().parent_path()});
  const std::vector<PluginInfo> infos = catalogue.List();
  ASSERT_EQ(infos.size(), 2U);
  EXPECT_THAT(infos[0].refused, AllOf(HasSubstr(ConstructedFile().string()),
                                      HasSubstr("it exited with code 0 while it was loaded"),
                                      HasSubstr("static constructors")));
  EXPECT_EQ(infos[1].refused, "");
}

TEST_F(LoadProbe, AGoodFileIsTriedOnceForItsContent) {
  const fs::path copy = scratch_.path() / "copy.so";
  fs::copy_file(ConstructedFile(), copy);
  RequireLoadable(copy, "dp_bench_plugin");
  EXPECT_EQ(fs::file_size(memory()), 65U);  // a hash and the line's end
  setenv("DPB_TEST_CONSTRUCTOR", "exit", 1);
  RequireLoadable(copy, "dp_bench_plugin");

  std::ofstream(copy, std::ios::app) << "another content";
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { RequireLoadable(copy, "dp_bench_plugin"); }),
              HasSubstr("exited with code 0"));
  EXPECT_EQ(fs::file_size(memory()), 65U);
}

TEST_F(LoadProbe, WithoutAMemoryEveryProgramTries) {
  std::ofstream(scratch_.path() / "dp_bench") << "no folder";
  const fs::path copy = scratch_.path() / "copy.so";
  fs::copy_file(ConstructedFile(), copy);
  RequireLoadable(copy, "dp_bench_plugin");
  setenv("DPB_TEST_CONSTRUCTOR", "segv", 1);
  EXPECT_THAT(MessageOf(ErrorCode::kPlugin, [&] { RequireLoadable(copy, "dp_bench_plugin"); }),
              HasSubstr("died with signal 11 (SIGSEGV)"));
}

TEST_F(LoadProbe, AMemoryThatGrewTooLargeStartsAnew) {
  fs::create_directories(memory().parent_path());
  std::ofstream(memory()) << std::string((1 << 20) + 1, 'x');
  const fs::path copy = scratch_.path() / "copy.so";
  fs::copy_file(ConstructedFile(), copy);
  RequireLoadable(copy, "dp_bench_plugin");
  EXPECT_EQ(fs::file_size(memory()), 65U);
}

}  // namespace
}  // namespace dp_bench::plugin
