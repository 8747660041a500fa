#include "media/av_ptr.h"

#include <fmt/format.h>

#include <array>
#include <mutex>

#include "dp_bench/error.h"

namespace dp_bench::media {

void QuietLibav() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_level(AV_LOG_FATAL); });
}

int AvCheck(int result, std::string_view call) {
  if (result >= 0) return result;
  std::array<char, AV_ERROR_MAX_STRING_SIZE> reason{};
  av_strerror(result, reason.data(), reason.size());
  throw Error(ErrorCode::kMedia, fmt::format("libav: {} failed: {}", call, reason.data()));
}

}  // namespace dp_bench::media
