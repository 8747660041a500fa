#include "media/mp4_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "core/regular_file.h"
#include "dp_bench/error.h"

namespace dp_bench::media {
namespace {

using namespace std::string_view_literals;

constexpr int kMaxDepth = 8;
constexpr int kMaxBoxes = 1'000'000;

// The boxes on the way to the tables of samples.
constexpr std::array kParents = {"moov"sv, "trak"sv, "mdia"sv, "minf"sv,
                                 "stbl"sv, "moof"sv, "traf"sv};

// Tables that begin, after version and flags, with the number of their entries, of at least four
// bytes each.
constexpr std::array kTables = {"stts"sv, "ctts"sv, "stss"sv, "stps"sv,
                                "stsc"sv, "stco"sv, "co64"sv};

class TableCheck {
 public:
  explicit TableCheck(const std::filesystem::path& path) : file_(path) {}

  void Run() { Walk(0, file_.size(), 0); }

 private:
  std::uint64_t ReadNumber(std::uint64_t position, std::size_t n_bytes) {
    std::array<std::byte, 8> bytes = {};
    file_.Seek(position);
    file_.ReadExactly(std::span(bytes).first(n_bytes));
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < n_bytes; ++i) {
      number = number << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    }
    return number;
  }

  void Walk(std::uint64_t begin, std::uint64_t end, int depth) {
    while (depth < kMaxDepth && end - begin >= 8) {
      if (++n_boxes_ > kMaxBoxes) Refuse(fmt::format("more than {} boxes", kMaxBoxes));
      std::uint64_t size = ReadNumber(begin, 4);
      const auto type = static_cast<std::uint32_t>(ReadNumber(begin + 4, 4));
      std::uint64_t content = begin + 8;
      if (size == 1 && end - begin >= 16) {
        size = ReadNumber(begin + 8, 8);
        content = begin + 16;
      }
      // libav reads what is there of a box that is cut off
      if (size == 0 || size > end - begin) size = end - begin;
      if (begin + size < content) return;
      Look(type, content, begin + size, depth);
      begin += size;
    }
  }

  void Look(std::uint32_t type, std::uint64_t begin, std::uint64_t end, int depth) {
    const std::array<char, 4> letters = {static_cast<char>(type >> 24),
                                         static_cast<char>(type >> 16),
                                         static_cast<char>(type >> 8), static_cast<char>(type)};
    const std::string_view name(letters.data(), letters.size());
    if (std::ranges::find(kParents, name) != kParents.end()) return Walk(begin, end, depth + 1);
    if (std::ranges::find(kTables, name) != kTables.end() && end - begin >= 8) {
      const std::uint64_t n_entries = ReadNumber(begin + 4, 4);
      if (n_entries > (end - begin) / 4) {
        Refuse(fmt::format("{} entries of '{}' in {} bytes", n_entries, name, end - begin));
      }
    }
    // after version and flags: the count, in stsz and stz2 after four more bytes
    const std::uint64_t offset = name == "trun" ? 4 : 8;
    if (name != "stsz" && name != "stz2" && name != "trun") return;
    if (end - begin < offset + 4) return;
    n_samples_ += ReadNumber(begin + offset, 4);
    if (n_samples_ > file_.size()) {
      Refuse(fmt::format("{} samples in {} bytes", n_samples_, file_.size()));
    }
  }

  [[noreturn]] void Refuse(const std::string& what) const {
    throw Error(ErrorCode::kMedia,
                fmt::format("{}: the tables are damaged: {}", file_.path().string(), what));
  }

  core::RegularFile file_;
  int n_boxes_ = 0;
  std::uint64_t n_samples_ = 0;
};

}  // namespace

void RequirePlausibleTables(const std::filesystem::path& path) {
  try {
    TableCheck(path).Run();
  } catch (const Error& fault) {
    throw Error(ErrorCode::kMedia, fault.what());
  }
}

}  // namespace dp_bench::media
