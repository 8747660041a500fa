// Evidence about several tasks at once, from one e-value of each. It holds however the tasks depend
// on each other: they may share seeds, policy and env. All values are natural logarithms.
#pragma once

#include <span>
#include <vector>

namespace dp_bench {

/// ln of the mean of the e-values, which is an e-value against "no task dropped" (Vovk and Wang
/// 2021, "E-values: calibration, combination and applications"). At least one.
double LogMeanEvidence(std::span<const double> log_evidence);

/// The e-BH procedure (Wang and Ramdas 2022, "False discovery rate control with e-values"): which
/// tasks are shown to have dropped, in the order given. Of those named, a share of `alpha` in (0,
/// 1) at most is named wrongly, on average. Whoever names one has a mean of 1/alpha or more.
std::vector<bool> NameDrops(std::span<const double> log_evidence, double alpha);

}  // namespace dp_bench
