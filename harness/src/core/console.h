// What the user reads. Results go to standard output, where a lost one must not go unnoticed.
// Status goes to standard error, which may be closed or full without ending a training. Unlike
// fmt::print, nothing here throws when a write fails.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dp_bench::core {

/// The text with control characters made visible (ESC becomes \x1b), except line ends and tabs:
/// names and reasons from files must not control the user's terminal.
std::string Printable(std::string_view text);

/// Writes Printable(text) to standard output. A failure is remembered for LostOutput.
void WriteResult(std::string_view text);

/// Writes Printable(text) to standard error at once. A failure is ignored.
void WriteStatus(std::string_view text);

/// Flushes standard output. Returns the system's reason if anything written there since the program
/// started was lost.
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

template <class T, class... More>
void LogInfo(fmt::format_string<T, More...> format, T&& value, More&&... more) {
  LogInfo(fmt::format(format, std::forward<T>(value), std::forward<More>(more)...));
}

template <class T, class... More>
void LogWarning(fmt::format_string<T, More...> format, T&& value, More&&... more) {
  LogWarning(fmt::format(format, std::forward<T>(value), std::forward<More>(more)...));
}

}  // namespace dp_bench::core
