// Episodes whose pictures have their colours in another order than in the rest of the data set.
// Torch-free.
#pragma once

#include "dp_bench/dataset.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// Cameras whose pictures have red and blue exchanged in some episodes. Compares the first picture
/// of each episode with the medians of all episodes, after it was given a grey mean, so that the
/// colour of the light does not matter. Two signs:
/// - in cells of a 4 x 4 grid that are usually red or usually blue it is the other way round, in at
///   least four cells and in 60 % of them;
/// - the coloured pixels, wherever they are, have the usual mean colour, mirrored. Counts only if
///   they usually have several hues: a single object may differ between episodes.
/// Open for cameras that see little colour, and for fewer than five episodes.
Finding CheckColourOrder(const Dataset& dataset);

}  // namespace dp_bench::inspect
