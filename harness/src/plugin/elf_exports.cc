// A reader of .dynsym (System V ABI, chapter 4, "Object Files"). boost::dll::library_info reads
// .symtab instead, which stripped libraries lack, and does not check sizes.
#include "plugin/elf_exports.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

class ElfFile {
 public:
  explicit ElfFile(const fs::path& file) : file_(file), stream_(file, std::ios::binary) {
    std::error_code fault;
    size_ = fs::is_regular_file(file, fault) ? fs::file_size(file, fault) : 0;
    if (!stream_ || fault) Refuse("it cannot be read");
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

  bool Exports(std::string_view symbol) {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_DYNSYM) continue;
      if (section.sh_link >= sections_.size()) Refuse("its symbol table has no names");
      const Elf64_Shdr& names_section = sections_[section.sh_link];
      const auto symbols =
          ReadArray<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
      const auto names = ReadArray<char>(names_section.sh_offset, names_section.sh_size);
      for (const Elf64_Sym& candidate : symbols) {
        if (IsExport(candidate) && NameAt(names, candidate.st_name) == symbol) return true;
      }
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
    throw Error(ErrorCode::kPlugin,
                fmt::format("{} is not a dp_bench plugin: {}", file_.string(), reason));
  }

  // Sizes are held against the file's own before memory is taken.
  template <class T>
  std::vector<T> ReadArray(std::uint64_t offset, std::uint64_t count) {
    if (offset > size_ || count > (size_ - offset) / sizeof(T)) Refuse("it is cut off or damaged");
    std::vector<T> values(count);
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(reinterpret_cast<char*>(values.data()),
                 static_cast<std::streamsize>(count * sizeof(T)));
    if (!stream_) Refuse("it cannot be read");
    return values;
  }

  static bool IsExport(const Elf64_Sym& symbol) {
    const auto binding = ELF64_ST_BIND(symbol.st_info);
    return symbol.st_shndx != SHN_UNDEF && (binding == STB_GLOBAL || binding == STB_WEAK) &&
           ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
  }

  static std::string_view NameAt(const std::vector<char>& names, std::uint32_t offset) {
    if (offset >= names.size()) return {};
    const std::string_view rest(names.data() + offset, names.size() - offset);
    return rest.substr(0, rest.find('\0'));
  }

  fs::path file_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

bool ExportsSymbol(const fs::path& file, std::string_view symbol) {
  return ElfFile(file).Exports(symbol);
}

}  // namespace dp_bench
