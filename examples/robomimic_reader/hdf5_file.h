// What a reader of demonstrations needs from libhdf5: names, numbers of a header that are checked,
// and rows of an array. Format: https://docs.hdfgroup.org/hdf5/develop/_f_m_t3.html
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dp_bench/array.h"

namespace robomimic_reader {

/// An id of libhdf5 that is closed with this object.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t id() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// The header of an array.
struct ArrayHeader {
  dp_bench::Shape shape;  // at least one dimension
  std::string dtype;      // "float64", "uint8", ...; "other" for what is not a number
};

/// An HDF5 file. All calls throw Error{kData} that names the file and the path in it. They may come
/// from several threads: libhdf5 is usually built without thread safety, so one mutex guards all of
/// them. The file must not refer to other files: external links and arrays are refused.
class Hdf5File {
 public:
  explicit Hdf5File(std::string path);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  /// Whether `path` exists.
  bool Has(const std::string& path) const;

  /// The names in a group, in alphabetical order.
  std::vector<std::string> Names(const std::string& group) const;

  /// An integer attribute of a group.
  std::int64_t Attribute(const std::string& group, const std::string& name) const;

  /// The header of an array, after checks: the file stores enough bytes for its shape, and a chunk
  /// fits in memory.
  ArrayHeader Header(const std::string& path) const;

  /// A list of strings of fixed length, as h5py writes np.array([...], dtype="S").
  std::vector<std::string> Strings(const std::string& path) const;

  /// Rows [begin, end) of an array whose header was checked, as float32 or uint8 (`dtype`).
  void ReadRows(const std::string& path, std::int64_t begin, std::int64_t end,
                dp_bench::DType dtype, std::span<std::byte> out) const;

  /// Throws Error{kData}: "demos.hdf5, data/demo_0: " and `what`.
  [[noreturn]] void Fail(const std::string& path, const std::string& what) const;

 private:
  bool Find(const std::string& path) const;
  void RequireLink(const std::string& path) const;
  Handle OpenArray(const std::string& path) const;
  Handle OpenGroup(const std::string& path) const;

  std::string path_;
  hid_t file_ = -1;
};

}  // namespace robomimic_reader
