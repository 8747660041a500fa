// An append-only log of one JSON object per line that a resumed run can cut back to where its
// checkpoint stood.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace dp_bench::core {

class JsonLog {
 public:
  /// Opens or creates the file and cuts it to `position` bytes. A file that is shorter keeps what
  /// it has. Throws Error{kIo}.
  JsonLog(std::filesystem::path path, std::int64_t position);
  JsonLog(const JsonLog&) = delete;
  JsonLog& operator=(const JsonLog&) = delete;
  ~JsonLog();

  /// Appends one object, given without its line end, in a single write. When that fails, nothing
  /// of the object stays.
  void Append(std::string_view object);

  /// The size of the file.
  std::int64_t position() const { return position_; }

  /// Makes everything appended before the call durable. Another thread may call it while this one
  /// appends.
  void Sync() const;

 private:
  bool Cut();  // to position_

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t position_ = 0;
  bool has_rest_ = false;  // of an append that failed, behind position_
};

}  // namespace dp_bench::core
