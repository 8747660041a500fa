// What a reader tells the user on standard error; plugins include nothing else that can.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dp_bench::zarr {

/// Something is usual, but worth knowing.
void TellUser(std::string_view message);

/// Something may be wrong, or is not used.
void WarnUser(std::string_view message);

/// The texts with commas, the first ones if there are many.
std::string ListFirst(std::span<const std::string> texts);

}  // namespace dp_bench::zarr
