// How far a long job is: one line that is drawn again on a terminal, a plain line now and then
// elsewhere (logs, pipes).
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dp_bench::core {

/// What a job of known size has reached.
struct ProgressState {
  std::int64_t done = 0;
  std::int64_t total = 0;
  /// For the rate, where steps differ in size: what this process has done, such as samples.
  std::optional<std::int64_t> items = std::nullopt;
  std::string_view unit = "steps";  // of the rate
};

class Progress {
 public:
  using Seconds = std::chrono::duration<double>;

  /// How it shows; a test gives its own.
  struct Output {
    std::FILE* file = stderr;  // nullptr: nothing is shown
    bool is_terminal = false;
    std::function<double()> now;  // [s], increasing
  };

  /// Standard error, and whether that is a terminal.
  static Output StandardError();

  /// `done_before`: what an earlier run had done, so that the rate counts this one alone.
  Progress(Output output, std::int64_t done_before);

  /// Draws "epoch 3  [=====>    ] 120/400  loss 0.031  512 samples/s  ETA 0:12:30" when it is time
  /// to. `prefix` and `suffix` are the text before the bar and after the count.
  void Update(const ProgressState& state, std::string_view prefix, std::string_view suffix);

  /// Leaves the line, so that other output can follow.
  void Pause();

  /// Items, or else steps, per second since construction; 0 before the first one.
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
