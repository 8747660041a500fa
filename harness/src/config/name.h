// Names that become a part of a path.
#pragma once

#include <string>
#include <string_view>

namespace dp_bench {

/// Returns `name`. Throws Error{kConfig} unless it is 1 to 100 letters, digits, '_', '-' and '.',
/// and does not begin with a '.'; `where`: "configs/a.json:3: name".
const std::string& RequireName(const std::string& name, std::string_view where);

}  // namespace dp_bench
