// Finds out what a shared library exports, from the file and without running its code.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace dp_bench::plugin {

/// Whether the dynamic symbol table of a 64-bit ELF shared library defines `symbol` for others.
/// Throws Error{kPlugin} if the file is something else or is damaged.
bool ExportsSymbol(const std::filesystem::path& file, std::string_view symbol);

/// The same for bytes in memory; messages call them `file`.
bool ExportsSymbol(std::span<const std::byte> bytes, const std::filesystem::path& file,
                   std::string_view symbol);

}  // namespace dp_bench::plugin
