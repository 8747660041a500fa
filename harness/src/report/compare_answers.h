// What dp_bench compare answers to --published, --real and --allocate, for the terminal. Each ends
// with a line break.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compare/published_rate.h"
#include "compare/real_rate.h"
#include "compare/suite_ranking.h"

namespace dp_bench::report {

/// `n_runs`: how many runs our episodes are of.
std::string PublishedText(const compare::PublishedCheck& check, std::size_t n_runs);

std::string RealRateText(const compare::RealRate& rate);

/// `allocation`: from compare::ToJson.
std::string AllocationText(nlohmann::json allocation, const compare::SuiteTable& table,
                           const compare::SuiteRanking& ranking);

}  // namespace dp_bench::report
