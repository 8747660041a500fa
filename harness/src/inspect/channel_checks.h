// Episodes whose channels are in another order than in the rest of the data set, for example after
// a change of the recorder. Torch-free.
#pragma once

#include "dp_bench/dataset.h"
#include "inspect/demonstrations.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// Numbers of a low-dimensional key that have the values of other ones, such as those of the other
/// arm. Compares the first values of an episode, which is the pose that recordings begin with, and
/// its means with the medians of all episodes. Says nothing where those do not tell channels apart.
Finding CheckChannelOrder(const Demonstrations& data);

/// Episodes whose pictures have red and blue exchanged. Compares the first picture of each episode
/// and the one in its middle, as 4 x 4 mean colours, with the medians of all episodes. Says nothing
/// about cameras that see little colour.
Finding CheckColourOrder(const Dataset& dataset);

}  // namespace dp_bench::inspect
