// An X server without a screen (Xvfb), for tests that open windows.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace dp_bench {

/// While it exists, DISPLAY names a separate display, which outlasts every window (-noreset).
class VirtualDisplay {
 public:
  /// Throws if Xvfb is not installed (scripts/setup.sh installs it) or does not start.
  VirtualDisplay() {
    int channel[2];
    if (pipe(channel) != 0) throw std::runtime_error("pipe failed");
    server_ = fork();
    if (server_ == 0) {
      const std::string descriptor = std::to_string(channel[1]);
      execlp("Xvfb", "Xvfb", "-displayfd", descriptor.c_str(), "-screen", "0", "1024x768x24",
             "-nolisten", "tcp", "-noreset", static_cast<char*>(nullptr));
      _exit(127);
    }
    close(channel[1]);
    std::string number;  // the server writes it, and a line feed, when it is ready
    for (char c = 0; read(channel[0], &c, 1) == 1 && c != '\n';) number += c;
    close(channel[0]);
    if (number.empty())
      throw std::runtime_error("Xvfb did not start; scripts/setup.sh installs it");
    setenv("DISPLAY", (":" + number).c_str(), /*replace=*/1);
  }
  VirtualDisplay(const VirtualDisplay&) = delete;
  VirtualDisplay& operator=(const VirtualDisplay&) = delete;
  ~VirtualDisplay() {
    unsetenv("DISPLAY");
    kill(server_, SIGTERM);
    waitpid(server_, nullptr, 0);
  }

 private:
  pid_t server_ = -1;
};

}  // namespace dp_bench
