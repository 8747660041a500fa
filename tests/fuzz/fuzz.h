// Shared by the fuzz targets. Each reads its bytes as one kind of untrusted file, in memory or from
// a scratch file. A bad file may only give an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::fuzz {

/// Input bytes; targets take parts from the front.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : bytes_(std::as_bytes(std::span(data, size))) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  /// The first byte, to choose a case; 0 if there is none.
  unsigned TakeByte() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<unsigned>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return byte;
  }

  /// Everything before the next NUL, which cannot occur in text files; everything if there is none.
  std::string_view TakeText() {
    const std::string_view all = text();
    const std::string_view part = all.substr(0, all.find('\0'));
    bytes_ = bytes_.subspan(part.size() == all.size() ? part.size() : part.size() + 1);
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Runs a reader. Returns whether it accepted the input.
template <class Read>
bool Accepts(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace dp_bench::fuzz

/// The one function of a target: its body reads `input`.
#define DPB_FUZZ(input)                                                               \
  static void FuzzOne(dp_bench::fuzz::Input input);                                   \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    FuzzOne(dp_bench::fuzz::Input(data, size));                                       \
    return 0;                                                                         \
  }                                                                                   \
  static void FuzzOne(dp_bench::fuzz::Input input)
