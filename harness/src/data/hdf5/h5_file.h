// What reading demonstrations needs from libhdf5. Files are untrusted: nothing outside the file is
// opened, and sizes are checked before memory is taken. Format:
// https://docs.hdfgroup.org/hdf5/develop/_f_m_t3.html
#pragma once

#include <fmt/format.h>
#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dp_bench/array.h"

namespace dp_bench::hdf5 {

/// An id of libhdf5 that is closed with this object, under the lock of the library.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t id() const { return id_; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

/// Prepares libhdf5, under its lock: errors are not printed, and no filters are loaded from files.
void PrepareLibrary();

/// How files are opened: without locks, which some file systems lack.
Handle FileAccess();

/// The cause of the last failure in libhdf5's words.
std::string LibraryMessage();

/// The type in memory.
hid_t NativeType(DType dtype);

/// What the header of an array says.
struct ArrayHeader {
  enum class Kind { kUnsigned, kSigned, kFloat, kBool, kText, kOther };

  bool is_number() const { return kind != Kind::kText && kind != Kind::kOther; }
  bool Is(Kind wanted, std::size_t size) const { return kind == wanted && item_bytes == size; }

  Shape shape;                  // at least one dimension: [steps, ...]
  Kind kind = Kind::kOther;     // kText: of fixed length
  std::size_t item_bytes = 0;   // in the file
  std::string dtype;            // "float64", for messages
  std::int64_t chunk_rows = 1;  // that are decoded together
  double chunk_bytes = 0.0;     // of a decoded chunk; 0 if the array is in one piece
};

/// An HDF5 file that is open for reading. Every call may come from any thread; one lock guards
/// libhdf5. Errors are Error{kData}: file, path in it, what was expected and found. Paths have no
/// leading '/'; "" is the root.
class H5File {
 public:
  /// Throws Error{kData} if this is no complete HDF5 file, Error{kIo} if it is no regular file.
  explicit H5File(std::filesystem::path path);
  ~H5File();
  H5File(const H5File&) = delete;
  H5File& operator=(const H5File&) = delete;

  enum class ObjectKind { kNothing, kGroup, kArray, kBrokenLink };
  ObjectKind Find(const std::string& path) const;

  /// What tells an object from others, also if several links lead to it.
  std::string Identity(const std::string& path) const;

  /// The names in a group, in the order of the numbers in them: demo_2 is before demo_10.
  std::vector<std::string> Names(const std::string& group) const;

  /// A scalar attribute of a group or array; none if it does not exist or has another type.
  std::optional<double> NumberAttribute(const std::string& path, const std::string& name) const;
  std::optional<std::string> TextAttribute(const std::string& path, const std::string& name) const;

  /// A list of texts.
  std::vector<std::string> Texts(const std::string& path) const;

  /// Why an array has too few or too many dimensions to be read, or nothing.
  std::string WrongRank(const std::string& path) const;

  /// Checks that the array is in this file, that it can be decoded, and that there are enough bytes
  /// for its shape.
  ArrayHeader Header(const std::string& path) const;

  /// Rows [begin, end) of an array whose header was checked, converted by libhdf5; as they are
  /// stored if there is no dtype. Chunks are decoded without the lock.
  void ReadRows(const std::string& path, std::int64_t begin, std::int64_t end,
                std::optional<DType> dtype, std::span<std::byte> out) const;

  /// "demos.hdf5, /data/demo_0/actions", for messages.
  std::string Describe(const std::string& path) const;

  /// Throws Error{kData}: the place and `what`.
  [[noreturn]] void Fail(const std::string& path, const std::string& what) const;

  template <class T, class... More>
  [[noreturn]] void Fail(const std::string& path, fmt::format_string<T, More...> what, T&& value,
                         More&&... more) const {
    Fail(path, fmt::format(what, std::forward<T>(value), std::forward<More>(more)...));
  }

 private:
  struct Array;

  Handle Open(const std::string& path) const;
  void OpenArray(const std::string& path, Array* array) const;
  [[noreturn]] void RefuseToOpen(const std::string& path) const;
  void RequireOwnBytes(const std::string& path, hid_t layout) const;
  void OpenHeader(const std::string& path, Array* array) const;
  void RequireBytes(const Array& array, const ArrayHeader& header) const;
  void ReadFilters(Array* array) const;
  hsize_t StoredBytes(const Array& array, const hsize_t* first) const;
  std::vector<std::byte> ReadChunk(const Array& array, const Shape& first) const;
  void ReadChunkRows(const Array& array, std::int64_t begin, std::int64_t end,
                     std::optional<DType> dtype, std::span<std::byte> out) const;
  void ReadPiece(const Array& array, std::int64_t begin, std::int64_t end,
                 std::optional<DType> dtype, std::span<std::byte> out) const;
  void WithAttribute(const std::string& path, const std::string& name,
                     const std::function<void(hid_t attribute, hid_t type)>& use) const;

  std::filesystem::path path_;
  mutable std::string outside_;  // the file that a link would have opened
  Handle links_;                 // how links are followed
  Handle arrays_;                // the same, and how arrays are opened
  Handle file_;
};

/// Whether `a` is before `b` if digits are compared as numbers.
bool NaturalLess(const std::string& a, const std::string& b);

/// Runs `work`, which reads the files at `path`, in a child process: libhdf5 crashes on some
/// damaged files, and on files that were made for it, and so that one crashes in place of the
/// program. Throws Error{kData} if the child crashes or does not end, and the Error that `work`
/// throws. Does nothing if no process can be started.
void TryInChild(const std::filesystem::path& path, const std::function<void()>& work);

}  // namespace dp_bench::hdf5
