// What the user reads: results on standard output, where none may be lost unnoticed, and status on
// standard error, which may be closed or full without ending a training. Nothing here throws when a
// write fails (fmt::print does).
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dp_bench::core {

/// The text with control characters made visible (ESC becomes \x1b), but for line ends and tabs:
/// names and reasons from files must not steer the user's terminal.
std::string Printable(std::string_view text);

/// Writes Printable(text) to standard output. A failure is remembered for LostOutput.
void WriteResult(std::string_view text);

/// Writes Printable(text) to standard error at once. A failure is ignored.
void WriteStatus(std::string_view text);

/// Flushes standard output. When something that was written there since the start of the program
/// did not arrive: the system's reason.
std::optional<std::string> LostOutput();

template <class... Args>
void PrintResult(fmt::format_string<Args...> format, Args&&... args) {
  WriteResult(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void PrintStatus(fmt::format_string<Args...> format, Args&&... args) {
  WriteStatus(fmt::format(format, std::forward<Args>(args)...));
}

/// Messages to the user on standard error, with time and level.
void LogInfo(std::string_view message);
void LogWarning(std::string_view message);

}  // namespace dp_bench::core
