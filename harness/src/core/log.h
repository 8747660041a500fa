// Messages to the user on standard error. Code that includes LibTorch logs through this: LibTorch's
// own fmt headers are not those that spdlog was made for.
#pragma once

#include <string_view>

namespace dp_bench {

void LogInfo(std::string_view message);
void LogWarning(std::string_view message);

}  // namespace dp_bench
