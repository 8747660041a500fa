#include "wire/dtype.h"

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

}  // namespace dp_bench::wire
