#include "data/lerobot/arrow_errors.h"

#include "core/errors.h"

namespace dp_bench::lerobot {

void ArrowErrors::Fail(const std::string& what) const {
  throw FormatError(code, "{}: {}", where, what);
}

}  // namespace dp_bench::lerobot
