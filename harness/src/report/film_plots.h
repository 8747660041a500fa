// What a policy planned in a filmed episode and what came of it, as inline SVG. Colours come from
// the page's style sheet.
#pragma once

#include <string>
#include <vector>

#include "report/line_plot.h"
#include "run/film_notes.h"

namespace dp_bench::report {

/// The picture's plane with the planned chunks as thin lines in two colours by turns, each from
/// where the hand was, and the executed path as a strong one, its start and end marked. `aspect`:
/// height of the picture over its width. Empty without marks that a picture shows.
std::string PlannedPathsSvg(const run::FilmNotes& notes, double aspect);

/// The reward of each step, with a stroke where each chunk begins.
LinePlot RewardPlot(const run::FilmNotes& notes);

/// What was planned for each step by the chunk that was the latest then: the dimensions of the
/// action that move most, at most four.
LinePlot ActionPlot(const run::FilmNotes& notes);

}  // namespace dp_bench::report
