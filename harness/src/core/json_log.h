// An append-only log with one JSON object per line. A resumed run can cut it back to the position
// that its checkpoint recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/system_error.h"

namespace dp_bench::core {

class JsonLog {
 public:
  /// Opens or creates the file and cuts it to `position` bytes. A shorter file is kept whole.
  /// Throws Error{kIo}.
  JsonLog(std::filesystem::path path, std::int64_t position);
  JsonLog(const JsonLog&) = delete;
  JsonLog& operator=(const JsonLog&) = delete;

  /// Appends one object, passed without a line end, in a single write. If the write fails, no part
  /// of the object remains.
  void Append(std::string_view object);

  /// The size of the file.
  std::int64_t position() const { return position_; }

  /// Makes everything appended before the call durable. Another thread may call it during an
  /// append.
  void Sync() const;

 private:
  bool Cut();  // to position_

  std::filesystem::path path_;
  Descriptor descriptor_;
  std::int64_t position_ = 0;
  bool has_rest_ = false;  // part of a failed append lies behind position_
};

/// The text of such a log without the part of a line that a kill may have left at its end. "" if
/// there is no file.
std::string ReadWholeLines(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace dp_bench::core
