// Base64 (RFC 4648), for images and videos inside a page.
#pragma once

#include <string>
#include <string_view>

namespace dp_bench::core {

std::string Base64(std::string_view bytes);

}  // namespace dp_bench::core
