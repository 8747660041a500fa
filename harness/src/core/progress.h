// Progress of a long job: one line that is redrawn on a terminal, or a plain line every 10 s
// elsewhere (logs, pipes).
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dp_bench::core {

/// How far a job of known size has come.
struct ProgressState {
  std::int64_t done = 0;
  std::int64_t total = 0;
  /// For the rate, if steps differ in size: the amount that this process has done, such as samples.
  std::optional<std::int64_t> items = std::nullopt;
  std::string_view unit = "steps";  // of the rate
  double other_work = 0.0;          // [s] that the rest needs besides its steps, if known
};

class Progress {
 public:
  /// How progress is shown. A test passes its own.
  struct Output {
    std::FILE* file = stderr;  // nullptr: show nothing
    bool is_terminal = false;
    std::function<double()> now;        // [s], increasing
    std::function<int()> columns = {};  // of the terminal now; 0 or none if unknown
  };

  /// Standard error, and whether it is a terminal.
  static Output StandardError();

  /// `done_before`: steps that an earlier run had done. The rate leaves them out.
  Progress(Output output, std::int64_t done_before);

  /// Draws "epoch 3  [=====>    ] 120/400  loss 0.031  512 samples/s  ETA 0:12:30" if the interval
  /// has passed. `prefix` and `suffix` are the text before the bar and after the count. A terminal
  /// that is too narrow gets a shorter bar, and less of the parts that two spaces separate in
  /// `suffix`, the last ones first.
  void Update(const ProgressState& state, std::string_view prefix, std::string_view suffix);

  /// Ends the line, so that other output can follow.
  void Pause();

  /// Leaves time that passed out of the rate and of the estimate: other work than the steps.
  void LeaveOut(double seconds) { start_ += seconds; }

  /// Items per second since construction, or steps per second without items; 0 before the first
  /// one.
  double Rate(const ProgressState& state) const;

 private:
  void Show(const std::string& text) const;
  std::string Line(const ProgressState& state, std::string_view prefix,
                   std::string_view suffix) const;
  double StepsPerSecond(const ProgressState& state) const;

  Output output_;
  std::int64_t done_before_;
  double start_;
  double last_shown_;
  bool is_line_open_ = false;
};

/// "1:02:03" from seconds; "?" when unknown.
std::string FormatDuration(double seconds);

}  // namespace dp_bench::core
