// What a shared library exports, read from the file without running any of its code.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace dp_bench::plugin {

/// Whether the dynamic symbol table of a 64-bit ELF shared library defines `symbol` for others.
/// Throws Error{kPlugin} when the file is something else or is damaged.
bool ExportsSymbol(const std::filesystem::path& file, std::string_view symbol);

/// The same for the bytes of a file that messages call `file`.
bool ExportsSymbol(std::span<const std::byte> bytes, const std::filesystem::path& file,
                   std::string_view symbol);

}  // namespace dp_bench::plugin
