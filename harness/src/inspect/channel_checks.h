// Episodes whose channels are in another order than in the rest of the data set, for example after
// a change of the recorder. Torch-free.
#pragma once

#include "inspect/demonstrations.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// Numbers of a low-dimensional key that are in another order in some episodes, such as those of
/// the left arm in place of the right one. Two signs, each of which is compared with the medians of
/// all episodes:
/// - the pose that recordings begin with: at least three channels begin far from where they usually
///   do, and each begins where another one does;
/// - observations that actions are targets for: at least two actions are far from the channel that
///   usually follows them, and each is as close to another one as usually to its own.
/// Open if the data have neither, or fewer than five episodes.
Finding CheckChannelOrder(const Demonstrations& data);

}  // namespace dp_bench::inspect
