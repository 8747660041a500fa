#include "wire/array_data.h"

#include <algorithm>
#include <utility>

#include "core/errors.h"

namespace dp_bench::wire {

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
