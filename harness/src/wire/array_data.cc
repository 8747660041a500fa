#include "wire/array_data.h"

#include <algorithm>
#include <utility>

#include "core/errors.h"
#include "wire/shown.h"

namespace dp_bench::wire {

NumpyType ParseNumpyType(std::string_view name) {
  const auto refuse = [name](std::string_view why) {
    return DataError("dtype '{}' {}; expected b1, i1 to i8, u1 to u8 or f2 to f8, little endian",
                     Shown(name), why);
  };
  if (name.size() != 3) throw refuse("is not supported");
  NumpyType type = {.name = std::string(name), .kind = name[1]};
  type.size = static_cast<std::size_t>(name[2] - '0');
  const std::string_view sizes = type.kind == 'b'                       ? "1"
                                 : type.kind == 'i' || type.kind == 'u' ? "1248"
                                 : type.kind == 'f'                     ? "248"
                                                                        : "";
  if (sizes.find(name[2]) == std::string_view::npos ||
      std::string_view("<>=|").find(name[0]) == std::string_view::npos) {
    throw refuse("is not supported");
  }
  if (type.size == 1) {
    type.name[0] = '|';
  } else if (name[0] != '<') {
    throw refuse("is not little endian");
  }
  return type;
}

NdArray ArrayIn(std::string_view data, const NumpyType& type, Shape shape,
                const std::shared_ptr<const void>& owner) {
  std::int64_t n_bytes = static_cast<std::int64_t>(type.size);
  bool is_possible = std::ranges::none_of(shape, [](std::int64_t size) { return size < 0; });
  for (const std::int64_t size : shape) {
    is_possible = is_possible && !__builtin_mul_overflow(n_bytes, size, &n_bytes);
  }
  if (!is_possible) throw DataError("impossible shape {}", ToString(shape));
  if (static_cast<std::size_t>(n_bytes) != data.size()) {
    throw DataError("expected {} bytes for {} {}, found {}", n_bytes, type.name, ToString(shape),
                    data.size());
  }
  // shares the owner's count: nothing is copied
  std::shared_ptr<const std::byte> shared(owner, reinterpret_cast<const std::byte*>(data.data()));
  return {.dtype = type.name, .shape = std::move(shape), .data = std::move(shared)};
}

}  // namespace dp_bench::wire
