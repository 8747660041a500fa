// The window and the player together: what `dp_bench view` runs.
#pragma once

#include <filesystem>
#include <functional>

#include "view/player.h"
#include "view/player_thread.h"

namespace dp_bench::view {

struct ViewerOptions {
  PlayerOptions player;
  int width = 0;  // of the picture [px]
  int height = 0;
  std::filesystem::path screenshot;  // PNG of the window when it closes; empty: none
};

/// Opens the window and plays what `make_stage` makes, until a person or PlayerOptions::n_steps end
/// it. Prints a line for each episode that ended. Call it on the main thread. Throws Error{kUsage}
/// without a display, and what ends the player.
void RunViewer(const ViewerOptions& options, std::function<PlayedStage()> make_stage);

}  // namespace dp_bench::view
