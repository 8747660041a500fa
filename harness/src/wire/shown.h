// Text from a message as part of an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dp_bench::wire {

/// The first bytes without control characters, as valid UTF-8.
std::string Shown(std::string_view text, std::size_t max_bytes = 40);

}  // namespace dp_bench::wire
