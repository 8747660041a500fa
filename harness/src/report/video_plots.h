// Plans and results of an episode with a video as inline SVG. Colours come from the page's style
// sheet.
#pragma once

#include <string>

#include "report/line_plot.h"
#include "run/video_notes.h"

namespace dp_bench::report {

/// The planned chunks as thin lines in two alternating colours, each from the hand's position at
/// planning, and the executed path as a thick line with marked start and end. They fill the
/// image, whose shape is the frame's. `aspect`: height of the frame over its width. Empty if no
/// mark is visible.
std::string PlannedPathsSvg(const run::VideoNotes& notes, double aspect);

/// The reward of each step, with a tick mark where each chunk begins.
LinePlot RewardPlot(const run::VideoNotes& notes);

/// The action planned for each step by the most recent chunk: the dimensions with the largest
/// range, at most four.
LinePlot ActionPlot(const run::VideoNotes& notes);

}  // namespace dp_bench::report
