#include "gl_context.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "dp_bench/error.h"

namespace dp_bench::mujoco {
namespace {

// The choice is made once per process, so each test runs in a separate process.
[[noreturn]] void ChooseWith(const char* variable, const char* value) {
  setenv(variable, value, 1);
  try {
    std::cerr << "chose " << HeadlessGl().name() << '\n';
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    std::exit(ExitCodeFor(error.code()));
  }
  std::exit(0);
}

class HeadlessGlDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(HeadlessGlDeathTest, EglIsChosenWhenAskedFor) {
  EXPECT_EXIT(ChooseWith("MUJOCO_GL", "egl"), testing::ExitedWithCode(0), "chose EGL, ");
}

TEST_F(HeadlessGlDeathTest, AWindowSystemIsRefused) {
  EXPECT_EXIT(ChooseWith("MUJOCO_GL", "glfw"), testing::ExitedWithCode(5),
              "MUJOCO_GL is 'glfw'.*'egl' or 'osmesa'");
}

TEST_F(HeadlessGlDeathTest, AMissingDeviceIsNamed) {
  EXPECT_EXIT(ChooseWith("MUJOCO_EGL_DEVICE_ID", "999"), testing::ExitedWithCode(5),
              "MUJOCO_EGL_DEVICE_ID is '999', but this machine's EGL devices are numbered 0 to");
  EXPECT_EXIT(ChooseWith("MUJOCO_EGL_DEVICE_ID", "first"), testing::ExitedWithCode(5),
              "MUJOCO_EGL_DEVICE_ID is 'first'");
}

// Hides the drivers of EGL; OSMesa is either missing or chosen.
TEST_F(HeadlessGlDeathTest, WithoutADriverEachSystemsReasonIsNamed) {
  setenv("__EGL_VENDOR_LIBRARY_DIRS", "/nonexistent", 1);
  std::string reasons;
  if (TryOsmesa(&reasons) != nullptr) {
    EXPECT_EXIT(ChooseWith("__EGL_VENDOR_LIBRARY_DIRS", "/nonexistent"), testing::ExitedWithCode(0),
                "chose OSMesa");
  } else {
    EXPECT_EXIT(ChooseWith("__EGL_VENDOR_LIBRARY_DIRS", "/nonexistent"), testing::ExitedWithCode(5),
                "cannot render.*\n  EGL: .*surfaceless.*\n  OSMesa: libOSMesa.*\ninstall Mesa");
  }
  unsetenv("__EGL_VENDOR_LIBRARY_DIRS");
}

TEST(HeadlessGl, AForkedProcessIsRefused) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer waits for ever in a child of a process with threads";
#endif
  HeadlessGl();
  GTEST_FLAG_SET(death_test_style, "fast");  // forks
  EXPECT_EXIT(ChooseWith("MUJOCO_GL", "egl"), testing::ExitedWithCode(5),
              "forked from one that had drawn an image.*'forkserver'");
}

TEST(HeadlessGl, GivesEachThreadItsContext) {
  const auto mine = HeadlessGl().CreateContext();
  std::thread([] {
    const auto theirs = HeadlessGl().CreateContext();
    theirs->MakeCurrent();
  }).join();
  mine->MakeCurrent();
}

}  // namespace
}  // namespace dp_bench::mujoco
