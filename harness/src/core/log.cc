// spdlog behind core/log.h.
#include "core/log.h"

#include <spdlog/spdlog.h>

namespace dp_bench {

void LogInfo(std::string_view message) { spdlog::info("{}", message); }

void LogWarning(std::string_view message) { spdlog::warn("{}", message); }

}  // namespace dp_bench
