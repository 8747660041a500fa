// The drawing of core/progress.h.
#include "core/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/console.h"

namespace dp_bench::core {
namespace {

constexpr double kTerminalInterval = 0.1;  // [s]
constexpr double kPlainInterval = 10.0;    // [s]
constexpr int kBarWidth = 20;
constexpr int kLeastBarWidth = 5;
constexpr int kUsualColumns = 80;
constexpr std::string_view kGap = "  ";

std::string Bar(const ProgressState& state, int width) {
  const double fraction =
      state.total > 0 ? static_cast<double>(state.done) / static_cast<double>(state.total) : 0.0;
  const auto filled = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * width);
  std::string bar(static_cast<std::size_t>(width), ' ');
  std::fill_n(bar.begin(), filled, '=');
  if (filled < bar.size()) bar[filled] = '>';
  return "[" + bar + "] ";
}

// Characters of UTF-8, which are one column wide in what is shown here.
int Width(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string Join(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, kGap));
}

int ColumnsOfStandardError() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Progress::Output Progress::StandardError() {
  return {.file = stderr,
          .is_terminal = ::isatty(STDERR_FILENO) == 1,
          .now = SteadyTime,
          .columns = ColumnsOfStandardError};
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
  const std::string line = Line(state, Printable(prefix), Printable(suffix));
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
  const double remaining =
      steps_per_second > 0
          ? static_cast<double>(state.total - state.done) / steps_per_second + state.other_work
          : std::numeric_limits<double>::quiet_NaN();
  const std::string start(prefix);
  const std::string count = fmt::format("{}/{}", state.done, state.total);
  const double items_per_second = Rate(state);
  const int n_decimals = items_per_second < 9.95 ? 1 : 0;  // an episode can take many seconds
  const std::string rate = fmt::format("{:.{}f} {}/s", items_per_second, n_decimals, state.unit);
  const std::string eta = "ETA " + FormatDuration(remaining);
  if (!output_.is_terminal) return Join({start, count, std::string(suffix), rate, eta});

  // a line that reaches the last column would begin another one
  const int columns = output_.columns ? output_.columns() : 0;
  const int room = (columns > 0 ? columns : kUsualColumns) - 1;
  while (true) {
    std::vector<std::string> parts = {start, count, std::string(suffix), rate, eta};
    if (suffix.empty()) parts.erase(parts.begin() + 2);
    const int bar = std::min(kBarWidth, room - Width(Join(parts)) - Width("[] "));
    if (bar >= kLeastBarWidth) {
      parts[1] = Bar(state, bar) + count;
      return Join(parts);
    }
    if (suffix.empty()) break;
    const std::size_t gap = suffix.rfind(kGap);
    suffix = suffix.substr(0, gap == std::string_view::npos ? 0 : gap);
  }
  for (const std::vector<std::string>& parts : std::vector<std::vector<std::string>>{
           {start, count, rate, eta}, {start, count, eta}, {count, eta}, {count}}) {
    if (Width(Join(parts)) <= room) return Join(parts);
  }
  return count.substr(0, static_cast<std::size_t>(std::max(room, 0)));
}

}  // namespace dp_bench::core
