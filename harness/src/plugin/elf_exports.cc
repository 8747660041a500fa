// A reader of .dynsym (System V ABI, chapter 4, "Object Files"). boost::dll::library_info reads
// .symtab instead, which stripped libraries lack, and does not check sizes.
#include "plugin/elf_exports.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/regular_file.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxTableBytes = std::uint64_t{256} << 20;  // of symbols, of names

/// Copies the bytes at this offset, which must be within the file.
using ReadAt = std::function<void(std::uint64_t, std::span<std::byte>)>;

class ElfFile {
 public:
  ElfFile(fs::path file, std::uint64_t size, ReadAt read)
      : file_(std::move(file)), size_(size), read_(std::move(read)) {
    if (size_ < sizeof(header_)) Refuse("it is not a shared library");

    header_ = ReadArray<Elf64_Ehdr>(0, 1).front();
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) Refuse("it is not a shared library");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_type != ET_DYN || header_.e_machine != kHostMachine) {
      Refuse("it is not a shared library for this machine");
    }
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) Refuse("it has no section table");
    sections_ = ReadArray<Elf64_Shdr>(header_.e_shoff, header_.e_shnum);
  }

  bool Exports(std::string_view symbol) const {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_DYNSYM) continue;
      // the first one counts: there may be only one, and each takes memory
      if (section.sh_link >= sections_.size()) Refuse("its symbol table has no names");
      const Elf64_Shdr& names_section = sections_[section.sh_link];
      const auto symbols =
          ReadArray<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
      const auto names = ReadArray<char>(names_section.sh_offset, names_section.sh_size);
      for (const Elf64_Sym& candidate : symbols) {
        if (IsExport(candidate) && IsNameAt(names, candidate.st_name, symbol)) return true;
      }
      return false;
    }
    return false;
  }

 private:
#if defined(__x86_64__)
  static constexpr Elf64_Half kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
  static constexpr Elf64_Half kHostMachine = EM_AARCH64;
#else
#error "name the ELF machine of this architecture"
#endif

  [[noreturn]] void Refuse(const std::string& reason) const {
    throw PluginError("{} is not a dp_bench plugin: {}", file_.string(), reason);
  }

  // Compares sizes with that of the file before memory is allocated.
  template <class T>
  std::vector<T> ReadArray(std::uint64_t offset, std::uint64_t count) const {
    if (offset > size_ || count > (size_ - offset) / sizeof(T)) Refuse("it is cut off or damaged");
    if (count > kMaxTableBytes / sizeof(T)) {
      Refuse(fmt::format("one of its tables has more than {} bytes", kMaxTableBytes));
    }
    std::vector<T> values(count);
    read_(offset, std::as_writable_bytes(std::span(values)));
    return values;
  }

  static bool IsExport(const Elf64_Sym& symbol) {
    const auto binding = ELF64_ST_BIND(symbol.st_info);
    return symbol.st_shndx != SHN_UNDEF && (binding == STB_GLOBAL || binding == STB_WEAK) &&
           ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
  }

  // Compared as a whole: a search for the end of each name would read the table once per symbol.
  static bool IsNameAt(const std::vector<char>& names, std::uint32_t offset,
                       std::string_view name) {
    return offset < names.size() && names.size() - offset > name.size() &&
           std::string_view(names.data() + offset, name.size()) == name &&
           names[offset + name.size()] == '\0';
  }

  fs::path file_;
  std::uint64_t size_;
  ReadAt read_;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

bool ExportsSymbol(const fs::path& file, std::string_view symbol) {
  try {
    core::RegularFile bytes(file);
    const auto read = [&bytes](std::uint64_t offset, std::span<std::byte> out) {
      bytes.Seek(offset);
      bytes.ReadExactly(out);
    };
    return ElfFile(file, bytes.size(), read).Exports(symbol);
  } catch (const Error& fault) {
    if (fault.code() != ErrorCode::kIo) throw;
    throw PluginError("{} is not a dp_bench plugin: {}", file.string(), fault.what());
  }
}

bool ExportsSymbol(std::span<const std::byte> bytes, const fs::path& file,
                   std::string_view symbol) {
  const auto read = [bytes](std::uint64_t offset, std::span<std::byte> out) {
    std::ranges::copy(bytes.subspan(offset, out.size()), out.begin());
  };
  return ElfFile(file, bytes.size(), read).Exports(symbol);
}

}  // namespace dp_bench::plugin
