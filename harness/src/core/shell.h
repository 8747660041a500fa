// Words of commands that a message proposes or that a shell runs.
#pragma once

#include <string>
#include <string_view>

namespace dp_bench::core {

/// The text as one word of a POSIX shell, in quotes if it needs them.
std::string ShellWord(std::string_view text);

}  // namespace dp_bench::core
