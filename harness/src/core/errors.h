// An Error of each code, with a message that is formatted as fmt::format does:
//   throw DataError("'{}': expected {} frames, found {}", path, wanted, found);
#pragma once

#include <fmt/format.h>

#include "dp_bench/error.h"

namespace dp_bench {

/// An Error whose code is a value.
template <class... T>
Error FormatError(ErrorCode code, fmt::format_string<T...> message, T&&... values) {
  return Error(code, fmt::vformat(message, fmt::make_format_args(values...)));
}

#define DPB_ERROR_OF(Name, code)                                                 \
  template <class... T>                                                          \
  Error Name(fmt::format_string<T...> message, T&&... values) {                  \
    return Error(code, fmt::vformat(message, fmt::make_format_args(values...))); \
  }

DPB_ERROR_OF(UsageError, ErrorCode::kUsage)
DPB_ERROR_OF(ConfigError, ErrorCode::kConfig)
DPB_ERROR_OF(PluginError, ErrorCode::kPlugin)
DPB_ERROR_OF(DataError, ErrorCode::kData)
DPB_ERROR_OF(ShapeError, ErrorCode::kShape)
DPB_ERROR_OF(EnvError, ErrorCode::kEnv)
DPB_ERROR_OF(CheckpointError, ErrorCode::kCheckpoint)
DPB_ERROR_OF(MediaError, ErrorCode::kMedia)
DPB_ERROR_OF(NumericError, ErrorCode::kNumeric)
DPB_ERROR_OF(IoError, ErrorCode::kIo)
DPB_ERROR_OF(InternalError, ErrorCode::kInternal)
DPB_ERROR_OF(UnavailableError, ErrorCode::kUnavailable)

#undef DPB_ERROR_OF

}  // namespace dp_bench
