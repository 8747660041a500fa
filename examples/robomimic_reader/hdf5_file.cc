// See hdf5_file.h.
#include "hdf5_file.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "dp_bench/error.h"

namespace robomimic_reader {
namespace {

constexpr hsize_t kMaxNames = 1'000'000;
constexpr std::size_t kMaxNameLength = 1000;
constexpr int kMaxRank = 8;
constexpr double kMaxChunkBytes = 256 << 20;
constexpr double kMaxStringBytes = 64 << 20;
// deflate, the filter that robomimic uses, reaches 1032
constexpr double kMaxCompression = 1100.0;

std::mutex library_mutex;

// The cause of the last failure in libhdf5's words.
std::string LibraryMessage() {
  std::string text;
  const H5E_walk2_t take_first = [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
    if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  return text.empty() ? "no reason given" : text;
}

std::string DTypeName(hid_t type) {
  const std::string bits = std::to_string(8 * H5Tget_size(type));
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return "float" + bits;
    case H5T_INTEGER:
      return (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits;
    default:
      return "other";
  }
}

double Product(std::span<const hsize_t> sizes) {
  double product = 1.0;
  for (const hsize_t size : sizes) product *= static_cast<double>(size);
  return product;
}

}  // namespace

Hdf5File::Hdf5File(std::string path) : path_(std::move(path)) {
  const std::lock_guard lock(library_mutex);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors are thrown, not printed
  file_ = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file_ >= 0) return;
  throw dp_bench::Error(dp_bench::ErrorCode::kData,
                        path_ + ": expected a complete HDF5 file; libhdf5 says: " +
                            LibraryMessage() + ". Check the path, or copy the file again.");
}

Hdf5File::~Hdf5File() {
  const std::lock_guard lock(library_mutex);
  H5Fclose(file_);
}

void Hdf5File::Fail(const std::string& path, const std::string& what) const {
  throw dp_bench::Error(dp_bench::ErrorCode::kData, path_ + ", " + path + ": " + what);
}

// Looks at each part of the path: libhdf5 would follow a link into another file.
bool Hdf5File::Find(const std::string& path) const {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end == 0 ? 0 : end + 1);
    const std::string part = path.substr(0, end);
    H5L_info_t info;
    if (H5Lexists(file_, part.c_str(), H5P_DEFAULT) <= 0) return false;
    if (H5Lget_info(file_, part.c_str(), &info, H5P_DEFAULT) < 0) Fail(part, LibraryMessage());
    if (info.type != H5L_TYPE_HARD) {
      Fail(part, "expected data, found a link; copy the data into the file");
    }
  }
  return true;
}

void Hdf5File::RequireLink(const std::string& path) const {
  if (!Find(path))
    Fail(path, "expected a group or array, found nothing; the README shows the layout");
}

Handle Hdf5File::OpenGroup(const std::string& path) const {
  RequireLink(path);
  Handle group(H5Gopen2(file_, path.c_str(), H5P_DEFAULT), &H5Gclose);
  if (group.id() < 0) Fail(path, "expected a group; libhdf5 says: " + LibraryMessage());
  return group;
}

Handle Hdf5File::OpenArray(const std::string& path) const {
  RequireLink(path);
  Handle array(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), &H5Dclose);
  if (array.id() < 0) Fail(path, "expected an array; libhdf5 says: " + LibraryMessage());
  return array;
}

bool Hdf5File::Has(const std::string& path) const {
  const std::lock_guard lock(library_mutex);
  return Find(path);
}

std::vector<std::string> Hdf5File::Names(const std::string& path) const {
  const std::lock_guard lock(library_mutex);
  const Handle group = OpenGroup(path);
  H5G_info_t info;
  if (H5Gget_info(group.id(), &info) < 0) Fail(path, LibraryMessage());
  if (info.nlinks > kMaxNames)
    Fail(path, "expected at most 1000000 names, found " + std::to_string(info.nlinks));
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[kMaxNameLength + 1];
    const ssize_t length = H5Lget_name_by_idx(group.id(), ".", H5_INDEX_NAME, H5_ITER_INC, i, name,
                                              sizeof(name), H5P_DEFAULT);
    if (length < 0) Fail(path, LibraryMessage());
    if (static_cast<std::size_t>(length) > kMaxNameLength)
      Fail(path, "expected names of at most 1000 bytes, found one of " + std::to_string(length));
    names.emplace_back(name);
  }
  return names;
}

std::int64_t Hdf5File::Attribute(const std::string& path, const std::string& name) const {
  const std::lock_guard lock(library_mutex);
  const Handle group = OpenGroup(path);
  if (H5Aexists(group.id(), name.c_str()) <= 0) {
    Fail(path, "expected the attribute '" + name + "', found none");
  }
  const Handle attribute(H5Aopen(group.id(), name.c_str(), H5P_DEFAULT), &H5Aclose);
  const Handle type(H5Aget_type(attribute.id()), &H5Tclose);
  const Handle space(H5Aget_space(attribute.id()), &H5Sclose);
  std::int64_t value = 0;
  if (H5Tget_class(type.id()) != H5T_INTEGER || H5Sget_simple_extent_npoints(space.id()) != 1 ||
      H5Aread(attribute.id(), H5T_NATIVE_INT64, &value) < 0) {
    Fail(path, "expected one integer as attribute '" + name + "', found something else");
  }
  return value;
}

ArrayHeader Hdf5File::Header(const std::string& path) const {
  const std::lock_guard lock(library_mutex);
  const Handle array = OpenArray(path);
  const Handle space(H5Dget_space(array.id()), &H5Sclose);
  const Handle type(H5Dget_type(array.id()), &H5Tclose);
  const Handle layout(H5Dget_create_plist(array.id()), &H5Pclose);

  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 1 || rank > kMaxRank) {
    Fail(path, "expected 1 to 8 dimensions, found " + std::to_string(rank));
  }
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr);
  const auto item_bytes = static_cast<double>(H5Tget_size(type.id()));
  const double n_bytes = Product(sizes) * item_bytes;
  const auto stored = static_cast<double>(H5Dget_storage_size(array.id()));

  if (H5Pget_layout(layout.id()) == H5D_VIRTUAL || H5Pget_external_count(layout.id()) > 0) {
    Fail(path, "expected data, found a reference to other files; copy the data into the file");
  }
  if (H5Pget_layout(layout.id()) == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(sizes.size());
    if (H5Pget_chunk(layout.id(), rank, chunk.data()) != rank) Fail(path, LibraryMessage());
    if (Product(chunk) * item_bytes > kMaxChunkBytes) {
      Fail(path, "expected chunks of at most 256 MiB; write it again with smaller ones");
    }
  }
  if (n_bytes > stored * kMaxCompression) {
    Fail(path, "expected data for its shape, found only " +
                   std::to_string(H5Dget_storage_size(array.id())) +
                   " bytes; the file is incomplete");
  }
  ArrayHeader header{.shape = {}, .dtype = DTypeName(type.id())};
  for (const hsize_t size : sizes) {
    if (size > std::numeric_limits<std::int32_t>::max())
      Fail(path, "expected dimensions below 2^31, found " + std::to_string(size));
    header.shape.push_back(static_cast<std::int64_t>(size));
  }
  return header;
}

std::vector<std::string> Hdf5File::Strings(const std::string& path) const {
  const dp_bench::Shape shape = Header(path).shape;
  const std::lock_guard lock(library_mutex);
  const Handle array = OpenArray(path);
  const Handle type(H5Dget_type(array.id()), &H5Tclose);
  const std::size_t length = H5Tget_size(type.id());
  if (shape.size() != 1 || H5Tget_class(type.id()) != H5T_STRING ||
      H5Tis_variable_str(type.id()) > 0) {
    Fail(path, "expected a list of strings of fixed length, as np.array(names, dtype=\"S\")");
  }
  if (static_cast<double>(shape[0]) * static_cast<double>(length) > kMaxStringBytes) {
    Fail(path, "expected at most 64 MiB of names");
  }
  std::string text(static_cast<std::size_t>(shape[0]) * length, '\0');
  if (H5Dread(array.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) {
    Fail(path, "libhdf5 cannot read it: " + LibraryMessage());
  }
  std::vector<std::string> strings;
  for (std::size_t at = 0; at < text.size(); at += length) {
    const std::string padded = text.substr(at, length);
    strings.push_back(padded.substr(0, padded.find('\0')));
  }
  return strings;
}

void Hdf5File::ReadRows(const std::string& path, std::int64_t begin, std::int64_t end,
                        dp_bench::DType dtype, std::span<std::byte> out) const {
  if (begin == end) return;
  const std::lock_guard lock(library_mutex);
  const Handle array = OpenArray(path);
  const Handle space(H5Dget_space(array.id()), &H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 1 || rank > kMaxRank) Fail(path, "the file changed while it was read");
  std::vector<hsize_t> first(static_cast<std::size_t>(rank), 0);
  std::vector<hsize_t> count(first.size());
  H5Sget_simple_extent_dims(space.id(), count.data(), nullptr);
  first[0] = static_cast<hsize_t>(begin);
  count[0] = static_cast<hsize_t>(end - begin);

  const hid_t type = dtype == dp_bench::DType::kUInt8 ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT;
  if (Product(count) * static_cast<double>(H5Tget_size(type)) != static_cast<double>(out.size())) {
    Fail(path, "expected a buffer for the rows, found " + std::to_string(out.size()) + " bytes");
  }
  const Handle rows(H5Screate_simple(rank, count.data(), nullptr), &H5Sclose);
  if (H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(),
                          nullptr) < 0 ||
      H5Dread(array.id(), type, rows.id(), space.id(), H5P_DEFAULT, out.data()) < 0) {
    Fail(path, "libhdf5 cannot read rows " + std::to_string(begin) + " to " + std::to_string(end) +
                   ": " + LibraryMessage());
  }
}

}  // namespace robomimic_reader
