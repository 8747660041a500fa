// The drawing of core/progress.h.
#include "core/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/console.h"

namespace dp_bench::core {
namespace {

constexpr double kTerminalInterval = 0.1;  // [s]
constexpr double kPlainInterval = 10.0;    // [s]
constexpr int kBarWidth = 20;

std::string Bar(const ProgressState& state) {
  const double fraction =
      state.total > 0 ? static_cast<double>(state.done) / static_cast<double>(state.total) : 0.0;
  const auto filled = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * kBarWidth);
  std::string bar(kBarWidth, ' ');
  std::fill_n(bar.begin(), filled, '=');
  if (filled < bar.size()) bar[filled] = '>';
  return "[" + bar + "]";
}

}  // namespace

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Progress::Output Progress::StandardError() {
  const auto now = [] {
    return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  return {.file = stderr, .is_terminal = ::isatty(STDERR_FILENO) == 1, .now = now};
}

Progress::Progress(Output output, std::int64_t done_before)
    : output_(std::move(output)),
      done_before_(done_before),
      start_(output_.now()),
      last_shown_(-std::numeric_limits<double>::infinity()) {}

void Progress::Update(const ProgressState& state, std::string_view prefix,
                      std::string_view suffix) {
  if (output_.file == nullptr) return;
  const double interval = output_.is_terminal ? kTerminalInterval : kPlainInterval;
  const double now = output_.now();
  if (state.done < state.total && now - last_shown_ < interval) return;
  last_shown_ = now;
  const std::string line = Printable(Line(state, prefix, suffix));
  if (output_.is_terminal) {
    Show("\r\033[K" + line);  // back to column one, clear the rest
    is_line_open_ = true;
  } else {
    Show(line + "\n");
  }
}

// A full or closed file loses the progress line but does not stop the job.
void Progress::Show(const std::string& text) const {
  std::fputs(text.c_str(), output_.file);
  std::fflush(output_.file);
}

void Progress::Pause() {
  if (!is_line_open_) return;
  Show("\n");
  is_line_open_ = false;
}

double Progress::Rate(const ProgressState& state) const {
  if (!state.items) return StepsPerSecond(state);
  const double elapsed = output_.now() - start_;
  return elapsed > 0 ? static_cast<double>(*state.items) / elapsed : 0.0;
}

double Progress::StepsPerSecond(const ProgressState& state) const {
  const double elapsed = output_.now() - start_;
  return elapsed > 0 ? static_cast<double>(state.done - done_before_) / elapsed : 0.0;
}

std::string Progress::Line(const ProgressState& state, std::string_view prefix,
                           std::string_view suffix) const {
  const double steps_per_second = StepsPerSecond(state);
  const double remaining = steps_per_second > 0
                               ? static_cast<double>(state.total - state.done) / steps_per_second
                               : std::numeric_limits<double>::quiet_NaN();
  const std::string bar = output_.is_terminal ? Bar(state) + " " : "";
  return fmt::format("{}  {}{}/{}  {}  {:.0f} {}/s  ETA {}", prefix, bar, state.done, state.total,
                     suffix, Rate(state), state.unit, FormatDuration(remaining));
}

}  // namespace dp_bench::core
