#include "wire/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "core/errors.h"
#include "wire/array_data.h"
#include "wire/shown.h"

namespace dp_bench::wire {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kNpyMagic = "\x93NUMPY"sv;
constexpr std::size_t kNpyBlock = 64;  // the data begin at a multiple of it

struct NpyDescription {
  std::string_view descr;
  bool is_fortran_order = false;
  Shape shape;
};

// The header is the text of a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2,)}
class NpyHeaderParser {
 public:
  explicit NpyHeaderParser(std::string_view text) : text_(text), rest_(text) {}

  NpyDescription Parse() {
    std::optional<std::string_view> descr;
    std::optional<bool> is_fortran_order;
    std::optional<Shape> shape;
    Expect("{");
    while (!Take("}")) {
      const std::string_view key = Text();
      Expect(":");
      if (key == "descr" && !descr) {
        descr = Text();
      } else if (key == "fortran_order" && !is_fortran_order) {
        is_fortran_order = Bool();
      } else if (key == "shape" && !shape) {
        shape = Tuple();
      } else {
        Refuse();
      }
      if (!Take(",")) {
        Expect("}");
        break;
      }
    }
    SkipSpace();
    if (!rest_.empty() || !descr || !is_fortran_order || !shape) Refuse();
    return {*descr, *is_fortran_order, *std::move(shape)};
  }

 private:
  [[noreturn]] void Refuse() const {
    throw DataError(
        "expected the header {{'descr': ..., 'fortran_order': ..., 'shape': (...)}} of a .npy "
        "file, found {}",
        Shown(text_, 120));
  }

  void SkipSpace() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }

  bool Take(std::string_view token) {
    SkipSpace();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void Expect(std::string_view token) {
    if (!Take(token)) Refuse();
  }

  std::string_view Text() {
    const std::string_view quote = Take("'") ? "'" : "\"";
    if (quote == "\"") Expect(quote);
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) Refuse();
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool Bool() {
    if (Take("True")) return true;
    Expect("False");
    return false;
  }

  Shape Tuple() {
    Shape shape;
    Expect("(");
    while (!Take(")")) {
      SkipSpace();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || shape.size() >= kMaxDimensions) Refuse();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      shape.push_back(size);
      if (!Take(",")) {
        Expect(")");
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  std::string_view rest_;
};

// From Fortran's order, where the first index changes fastest.
NdArray InCOrder(const NdArray& in, std::size_t item_size) {
  const std::size_t n_bytes = in.byte_size();
  std::shared_ptr<std::byte[]> memory(new std::byte[n_bytes]);
  const std::size_t rank = in.shape.size();
  std::vector<std::size_t> strides(rank);  // in `in`
  std::size_t stride = item_size;
  for (std::size_t d = 0; d < rank; ++d) {
    strides[d] = stride;
    stride *= static_cast<std::size_t>(in.shape[d]);
  }
  std::vector<std::int64_t> index(rank);
  std::size_t from = 0;
  for (std::size_t to = 0; to < n_bytes; to += item_size) {
    std::memcpy(memory.get() + to, in.data.get() + from, item_size);
    for (std::size_t d = rank; d-- > 0;) {
      from += strides[d];
      if (++index[d] < in.shape[d]) break;
      from -= strides[d] * static_cast<std::size_t>(in.shape[d]);
      index[d] = 0;
    }
  }
  return {in.dtype, in.shape, std::shared_ptr<const std::byte>(memory, memory.get())};
}

}  // namespace

NdArray ReadNpy(std::string_view file, const std::shared_ptr<const void>& owner) {
  constexpr std::size_t kVersion = kNpyMagic.size();  // two bytes
  constexpr std::size_t kLength = kVersion + 2;
  if (!file.starts_with(kNpyMagic) || file.size() < kLength) {
    throw DataError("expected a .npy file, found {} bytes of something else", file.size());
  }
  const int version = static_cast<unsigned char>(file[kVersion]);
  const int minor = static_cast<unsigned char>(file[kVersion + 1]);
  if (version < 1 || version > 3 || minor != 0) {
    throw DataError("expected a .npy file of version 1.0, 2.0 or 3.0, found {}.{}", version, minor);
  }
  const std::size_t length_size = version == 1 ? 2 : 4;
  if (file.size() < kLength + length_size) throw DataError("the .npy file is cut off");
  std::size_t length = 0;
  for (std::size_t i = length_size; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(file[kLength + i]);
  }
  const std::string_view rest = file.substr(kLength + length_size);
  if (rest.size() < length) throw DataError("the .npy file is cut off");
  NpyDescription found = NpyHeaderParser(rest.substr(0, length)).Parse();
  const NumpyType type = ParseNumpyType(found.descr);
  NdArray array = ArrayIn(rest.substr(length), type, std::move(found.shape), owner);
  return found.is_fortran_order ? InCOrder(array, type.size) : array;
}

std::string NpyHeader(const NdArray& array) {
  // numpy leaves space so that the first size of a file that is appended to can grow
  constexpr std::size_t kMaxDigits = 21;
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", array.dtype,
                  fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  if (!array.shape.empty()) {
    text.append(kMaxDigits - fmt::formatted_size("{}", array.shape.front()), ' ');
  }
  const std::size_t n_before = kNpyMagic.size() + 4;
  const std::size_t n_unpadded = n_before + text.size() + 1;
  text.append((kNpyBlock - n_unpadded % kNpyBlock) % kNpyBlock, ' ');
  text += '\n';
  std::string header(kNpyMagic);
  header += "\x01\x00"sv;
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace dp_bench::wire
