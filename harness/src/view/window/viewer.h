// The window and the player together: the body of `dp_bench view`.
#pragma once

#include <filesystem>
#include <functional>

#include "view/player.h"
#include "view/player_thread.h"

namespace dp_bench::view {

struct ViewerOptions {
  PlayerOptions player;
  int width = 0;  // of the image [px]
  int height = 0;
  std::filesystem::path screenshot;  // PNG of the window when it closes; empty: none
};

/// Opens the window and plays the stage from `make_stage` until the user closes it or
/// PlayerOptions::n_steps is reached. Prints a line for each finished episode. Call it on the main
/// thread. Throws Error{kUsage} without a display, and any error that ends the player.
void RunViewer(const ViewerOptions& options, std::function<PlayedStage()> make_stage);

}  // namespace dp_bench::view
