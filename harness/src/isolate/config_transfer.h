// A config that another process reads: there its errors name the same file, line and key, and here
// it counts as read as it was there.
#pragma once

#include <nlohmann/json.hpp>

#include "dp_bench/config.h"

namespace dp_bench {

/// The values of `config` and where each was written.
nlohmann::json TransferConfig(const Config& config);

/// The config that TransferConfig was given. Throws nlohmann::json::exception for what is none.
Config ReceiveConfig(const nlohmann::json& transfer);

/// Reads every key of `read`, the other process's `Config::ToJson`: what it does not know is
/// recorded as a default.
void AdoptReads(const Config& config, const nlohmann::json& read);

}  // namespace dp_bench
