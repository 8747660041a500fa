#include <utility>

#include "core/console.h"
#include "core/output_file.h"
#include "media/png.h"
#include "view/window/window.h"

namespace dp_bench::view {
namespace {

constexpr double kLongestSleepS = 0.25;  // a new image wakes the window sooner

constexpr const char* kKeys =
    "space pause, . step, + faster, - slower, c camera, r restart, n next episode, q quit";

void PrintEnded(const PlayerStatus& status) {
  core::PrintResult("seed {}: {} steps, score {:.3f}", status.seed, status.step, status.score);
  if (status.success) core::PrintResult(", success");
  if (!status.note.empty()) core::PrintResult(", {}", status.note);
  if (!status.failure.empty()) core::PrintResult(", failed: {}", status.failure);
  core::PrintResult("\n");
}

}  // namespace

void RunViewer(PlayerThreadOptions options, const std::filesystem::path& screenshot) {
  Window window(options.width, options.height, "dp_bench view");
  core::PrintResult("{}\n", kKeys);
  RgbImage image(options.width, options.height);
  options.on_image = &Window::Wake;
  PlayerThread player(std::move(options));

  PlayerStatus status;
  Pointer pointer;
  bool is_closed = false;
  while (!is_closed && !status.is_finished) {
    for (const char key : window.WaitForEvents(kLongestSleepS)) {
      if (const auto command = CommandOf(key)) player.Post(*command);
      is_closed = is_closed || key == 'q';
    }
    is_closed = is_closed || window.is_closed();
    if (const Pointer now = window.pointer(); now != pointer) player.Point(pointer = now);

    const bool was_over = status.is_over;
    if (!player.TakeImage(&image, &status)) continue;
    window.Show(image);
    window.SetTitle(Title(status));
    if (status.is_over && !was_over) PrintEnded(status);
  }
  if (screenshot.empty()) return;
  core::WriteOutput(screenshot, media::EncodePng(window.Capture()));
}

}  // namespace dp_bench::view
