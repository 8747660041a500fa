// C streams behind core/console.h: a stream's error flag stays set after its buffer could not be
// written.
#include "core/console.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "core/output_file.h"

namespace dp_bench::core {

namespace {

constexpr char kFirstOfC1 = '\xc2';  // U+0080 to U+009F are C2 80 to C2 9F in UTF-8

std::atomic<int> lost_errno{0};
std::atomic<bool> is_reserved{false};  // standard output

bool IsC0(char c) { return static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t'; }

// Terminals take U+009B for ESC [, so the C1 controls are as dangerous as ESC.
bool IsC1(std::string_view text, std::size_t i) {
  return text[i] == kFirstOfC1 && i + 1 < text.size() &&
         static_cast<unsigned char>(text[i + 1]) >> 5U == 4;  // 80 to 9F
}

// spdlog's default logger writes to standard output, between results, and reports a failed write
// with another message.
spdlog::logger& StandardErrorLogger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_error_handler([](const std::string&) {});
    return made;
  }();
  return *logger;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (IsC1(text, i)) {
      // JSON accepts this form too. It matters because JSON writers leave these characters (and
      // DEL) unescaped.
      printable += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[++i]));
    } else if (text[i] == '\x7f') {
      printable += "\\u007f";
    } else if (IsC0(text[i])) {
      printable += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    } else {
      printable += text[i];
    }
  }
  return printable;
}

void WriteResult(std::string_view text) {
  const std::string printable = Printable(text);
  errno = 0;
  std::FILE* const stream = is_reserved ? stderr : stdout;
  const std::size_t n_written = std::fwrite(printable.data(), 1, printable.size(), stream);
  // flush now, so that it appears before the status that follows
  if (std::fflush(stream) != 0 || n_written != printable.size()) lost_errno = errno;
}

void ReserveStandardOutput() { is_reserved = true; }

void WriteStatus(std::string_view text) {
  const std::string printable = Printable(text);
  std::fwrite(printable.data(), 1, printable.size(), stderr);
  std::fflush(stderr);
}

std::optional<std::string> LostOutput() {
  errno = 0;
  if (std::fflush(stdout) != 0) lost_errno = errno;
  if (std::ferror(stdout) == 0 && lost_errno == 0) return std::nullopt;
  if (lost_errno == 0) return "the write failed";
  return std::generic_category().message(lost_errno);
}

void LogInfo(std::string_view message) { StandardErrorLogger().info("{}", Printable(message)); }

void LogWarning(std::string_view message) { StandardErrorLogger().warn("{}", Printable(message)); }

}  // namespace dp_bench::core
