#include "app/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "dp_bench/error.h"

namespace dp_bench::app {
namespace {

bool IsUtf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::ignore) ==
         Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string WithoutForeignBytes(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

// With control characters made visible, line ends too.
std::string OnOneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    line += code < ' ' || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return line;
}

}  // namespace

void SettleStandardStreams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // gets the lowest free number, which is this one; writes to a read-only descriptor fail
    const int opened = open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != stream) close(opened);
  }
}

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);   // [bytes], the largest that glibc takes
  mallopt(M_TRIM_THRESHOLD, 512 << 20);  // [bytes]
}

void RequireUtf8(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    // the value of an override may be JSON on several lines
    const std::string line = OnOneLine(argv[i]);
    if (line != argv[i] && line.find('=') == std::string::npos) {
      throw Error(
          ErrorCode::kUsage,
          fmt::format("argument {}, '{}', has control characters, which no name or path may "
                      "have here. Was the output of another command taken for a name?",
                      i, line));
    }
    if (IsUtf8(argv[i])) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("argument {}, '{}', is not UTF-8. Paths and values are written into "
                            "JSON files, which must be UTF-8; rename the file.",
                            i, WithoutForeignBytes(argv[i])));
  }
}

}  // namespace dp_bench::app
