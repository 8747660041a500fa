#include "data/hdf5/h5_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>

#include "core/errors.h"
#include "core/library_lock.h"
#include "core/regular_file.h"
#include "data/hdf5/chunks.h"

namespace dp_bench::hdf5 {
namespace {

constexpr hsize_t kMaxNames = 1'000'000;
constexpr std::size_t kMaxTextBytes = 4096;  // of a name or an entry in a list
constexpr std::size_t kMaxAttributeBytes = std::size_t{16} << 20;
constexpr int kMaxRank = 8;
// deflate, the filter that robomimic uses, reaches 1032
constexpr double kMaxCompression = 1100.0;
constexpr std::size_t kPartBytes = std::size_t{16} << 20;
constexpr const char* kChanged = "the file changed while it was read";

double Product(const Shape& sizes) {
  double product = 1.0;
  for (const std::int64_t size : sizes) product *= static_cast<double>(size);
  return product;
}

bool IsBool(hid_t type) {
  if (H5Tget_nmembers(type) != 2) return false;
  char* const first = H5Tget_member_name(type, 0);
  const bool is_false = first != nullptr && std::strcmp(first, "FALSE") == 0;
  H5free_memory(first);
  return is_false;
}

void ReadType(hid_t type, ArrayHeader* header) {
  using Kind = ArrayHeader::Kind;
  header->item_bytes = H5Tget_size(type);
  const std::string bits = std::to_string(8 * header->item_bytes);
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      header->kind = Kind::kFloat;
      header->dtype = "float" + bits;
      return;
    case H5T_INTEGER: {
      const bool is_unsigned = H5Tget_sign(type) == H5T_SGN_NONE;
      header->kind = is_unsigned ? Kind::kUnsigned : Kind::kSigned;
      header->dtype = (is_unsigned ? "uint" : "int") + bits;
      return;
    }
    case H5T_ENUM:
      header->kind = IsBool(type) ? Kind::kBool : Kind::kOther;
      header->dtype = header->kind == Kind::kBool ? "bool" : "an enumeration";
      return;
    case H5T_STRING:
      header->kind = H5Tis_variable_str(type) > 0 ? Kind::kOther : Kind::kText;
      header->dtype = "texts";
      return;
    case H5T_COMPOUND:
      header->dtype = "a compound type";
      return;
    case H5T_VLEN:
      header->dtype = "lists of variable length";
      return;
    default:
      header->dtype = "a type without numbers";
  }
}

std::string RankFault(int rank) {
  if (rank >= 1 && rank <= kMaxRank) return "";
  return fmt::format("expected 1 to {} dimensions, found {}", kMaxRank,
                     rank == 0 ? "a single value" : std::to_string(rank));
}

std::string UpToNul(const char* text, std::size_t n) { return {text, strnlen(text, n)}; }

// One text of fixed or variable length. Memory is taken for this one only.
template <class Read>
std::string ReadText(hid_t type, std::size_t max_bytes, const Read& read) {
  if (H5Tis_variable_str(type) > 0) {
    char* text = nullptr;
    if (read(&text) < 0 || text == nullptr) return "";
    std::string copy = UpToNul(text, max_bytes + 1);
    H5free_memory(text);
    return copy;
  }
  const std::size_t n = H5Tget_size(type);
  if (n > max_bytes) return std::string(max_bytes + 1, '?');  // refused by its length
  std::string text(n, '\0');
  if (read(text.data()) < 0) return "";
  return UpToNul(text.data(), n);
}

// Refuses to open another file, and remembers its name.
herr_t RefuseOtherFile(const char*, const char*, const char* file, const char*, unsigned*, hid_t,
                       void* seen) {
  *static_cast<std::string*>(seen) = file;
  return -1;
}

}  // namespace

// An array that is open. It is closed under the lock.
struct H5File::Array {
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    const std::lock_guard lock(core::Hdf5Lock());
    for (Handle* handle : {&id, &layout, &type, &space}) *handle = Handle();
  }

  bool is_in_chunks() const { return !grid.chunk.empty(); }

  std::string path;
  Handle id;
  Handle layout;
  Handle type;  // of the elements in the file
  Handle space;
  ChunkGrid grid = {};
  std::vector<ChunkFilter> filters;
};

void PrepareLibrary() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors are thrown, not printed
  H5PLset_loading_state(0);                     // no code from the folders of HDF5_PLUGIN_PATH
}

Handle FileAccess() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), &H5Pclose);
  H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG);
  H5Pset_file_locking(access.id(), false, true);
  return access;
}

std::string LibraryMessage() {
  std::string text;
  const H5E_walk2_t take_first = [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
    if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  return text.empty() ? "no reason given" : text;
}

hid_t NativeType(DType dtype) {
  const std::array by_dtype = {H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_INT32,
                               H5T_NATIVE_INT64, H5T_NATIVE_FLOAT,  H5T_NATIVE_DOUBLE};
  return by_dtype.at(static_cast<std::size_t>(dtype));
}

H5File::H5File(std::filesystem::path path) : path_(std::move(path)) {
  core::RegularFile require_regular(path_);
  const std::lock_guard lock(core::Hdf5Lock());
  PrepareLibrary();
  links_ = Handle(H5Pcreate(H5P_LINK_ACCESS), &H5Pclose);
  arrays_ = Handle(H5Pcreate(H5P_DATASET_ACCESS), &H5Pclose);
  for (const Handle* list : {&links_, &arrays_}) {
    H5Pset_elink_cb(list->id(), &RefuseOtherFile, &outside_);
  }
  H5Pset_chunk_cache(arrays_.id(), 0, 0, 0.0);  // every chunk is read once
  const Handle access = FileAccess();
  file_ = Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.id()), &H5Fclose);
  if (file_.id() >= 0) return;
  throw DataError(
      "{}: expected a complete HDF5 file; libhdf5 says: {}. Check the path, or copy the file "
      "again.",
      path_.string(), LibraryMessage());
}

H5File::~H5File() {
  const std::lock_guard lock(core::Hdf5Lock());
  for (Handle* handle : {&file_, &arrays_, &links_}) *handle = Handle();
}

void H5File::Fail(const std::string& path, const std::string& what) const {
  throw DataError("{}: {}", Describe(path), what);
}

std::string H5File::Describe(const std::string& path) const {
  return fmt::format("{}, /{}", path_.string(), path);
}

H5File::ObjectKind H5File::Find(const std::string& path) const {
  const std::lock_guard lock(core::Hdf5Lock());
  if (!path.empty() && H5Lexists(file_.id(), path.c_str(), links_.id()) <= 0) {
    return ObjectKind::kNothing;
  }
  outside_.clear();
  const Handle object(H5Oopen(file_.id(), path.empty() ? "/" : path.c_str(), links_.id()),
                      &H5Oclose);
  if (object.id() < 0) return ObjectKind::kBrokenLink;
  const H5I_type_t type = H5Iget_type(object.id());
  return type == H5I_GROUP     ? ObjectKind::kGroup
         : type == H5I_DATASET ? ObjectKind::kArray
                               : ObjectKind::kNothing;
}

std::string H5File::Identity(const std::string& path) const {
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle object = Open(path);
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  const bool is_known = H5Oget_info3(object.id(), &info, H5O_INFO_BASIC) >= 0;
  const std::span identity = std::as_bytes(std::span(&info.token, 1));
#else
  H5O_info_t info;
  const bool is_known = H5Oget_info2(object.id(), &info, H5O_INFO_BASIC) >= 0;
  const std::span identity = std::as_bytes(std::span(&info.addr, 1));
#endif
  if (!is_known) Fail(path, LibraryMessage());
  return {reinterpret_cast<const char*>(identity.data()), identity.size()};
}

Handle H5File::Open(const std::string& path) const {
  outside_.clear();
  Handle object(H5Oopen(file_.id(), path.empty() ? "/" : path.c_str(), links_.id()), &H5Oclose);
  if (object.id() < 0) RefuseToOpen(path);
  return object;
}

void H5File::RefuseToOpen(const std::string& path) const {
  if (!outside_.empty()) {
    Fail(path,
         "expected data in the file, found a link into another file, '{}'; copy the data into this "
         "one",
         outside_);
  }
  Fail(path, "expected an array or group; libhdf5 says: " + LibraryMessage());
}

std::vector<std::string> H5File::Names(const std::string& path) const {
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle group = Open(path);
  H5G_info_t info;
  if (H5Gget_info(group.id(), &info) < 0) Fail(path, LibraryMessage());
  if (info.nlinks > kMaxNames) {
    Fail(path, "expected at most {} names, found {}", kMaxNames, info.nlinks);
  }
  std::vector<std::string> names;
  hsize_t next = 0;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->push_back(UpToNul(name, kMaxTextBytes + 1));
    return 0;
  };
  if (H5Literate(group.id(), H5_INDEX_NAME, H5_ITER_INC, &next, add, &names) < 0) {
    Fail(path, LibraryMessage());
  }
  for (const std::string& name : names) {
    if (name.size() <= kMaxTextBytes) continue;
    Fail(path, "expected names of at most {} bytes", kMaxTextBytes);
  }
  std::ranges::sort(names, &NaturalLess);
  return names;
}

void H5File::WithAttribute(const std::string& path, const std::string& name,
                           const std::function<void(hid_t, hid_t)>& use) const {
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle object = Open(path);
  const htri_t exists = H5Aexists(object.id(), name.c_str());
  if (exists < 0) Fail(path, "the attribute '{}': {}", name, LibraryMessage());
  if (exists == 0) return;
  const Handle attribute(H5Aopen(object.id(), name.c_str(), H5P_DEFAULT), &H5Aclose);
  const Handle type(H5Aget_type(attribute.id()), &H5Tclose);
  const Handle space(H5Aget_space(attribute.id()), &H5Sclose);
  if (H5Sget_simple_extent_npoints(space.id()) != 1) return;
  use(attribute.id(), type.id());
}

std::optional<double> H5File::NumberAttribute(const std::string& path,
                                              const std::string& name) const {
  std::optional<double> value;
  WithAttribute(path, name, [&](hid_t attribute, hid_t type) {
    double number = 0.0;
    const H5T_class_t kind = H5Tget_class(type);
    if (kind != H5T_INTEGER && kind != H5T_FLOAT) return;
    if (H5Aread(attribute, H5T_NATIVE_DOUBLE, &number) >= 0) value = number;
  });
  return value;
}

std::optional<std::string> H5File::TextAttribute(const std::string& path,
                                                 const std::string& name) const {
  std::optional<std::string> value;
  WithAttribute(path, name, [&](hid_t attribute, hid_t type) {
    if (H5Tget_class(type) != H5T_STRING) return;
    value = ReadText(type, kMaxAttributeBytes,
                     [&](void* out) { return H5Aread(attribute, type, out); });
  });
  return value;
}

std::vector<std::string> H5File::Texts(const std::string& path) const {
  const ArrayHeader header = Header(path);
  Array array;
  OpenArray(path, &array);
  const std::lock_guard lock(core::Hdf5Lock());
  if (header.shape.size() != 1 || H5Tget_class(array.type.id()) != H5T_STRING) {
    Fail(path, "expected a list of texts, found {} {}", header.dtype, ToString(header.shape));
  }
  const hsize_t one = 1;
  const Handle single(H5Screate_simple(1, &one, nullptr), &H5Sclose);
  std::vector<std::string> texts;
  for (hsize_t i = 0; i < static_cast<hsize_t>(header.shape[0]); ++i) {
    H5Sselect_hyperslab(array.space.id(), H5S_SELECT_SET, &i, nullptr, &one, nullptr);
    texts.push_back(ReadText(array.type.id(), kMaxTextBytes, [&](void* out) {
      return H5Dread(array.id.id(), array.type.id(), single.id(), array.space.id(), H5P_DEFAULT,
                     out);
    }));
    if (!texts.back().empty() && texts.back().size() <= kMaxTextBytes) continue;
    Fail(path, "expected a text of 1 to {} bytes as entry {}", kMaxTextBytes, i);
  }
  return texts;
}

// The layout must be known before anything else is asked: the size of an array that is put together
// from other files is in these files.
void H5File::RequireOwnBytes(const std::string& path, hid_t layout) const {
  if (H5Pget_layout(layout) != H5D_VIRTUAL && H5Pget_external_count(layout) == 0) return;
  Fail(path,
       "expected data in the file, found a reference to other files; copy the data into this one");
}

void H5File::ReadFilters(Array* array) const {
  const hid_t layout = array->layout.id();
  for (int i = 0; i < H5Pget_nfilters(layout); ++i) {
    std::array<char, 64> name = {};
    unsigned flags = 0;
    std::size_t n_values = 1;
    unsigned value = 0;
    const H5Z_filter_t filter = H5Pget_filter2(layout, static_cast<unsigned>(i), &flags, &n_values,
                                               &value, name.size() - 1, name.data(), nullptr);
    if (!IsKnownFilter(filter)) {
      Fail(array->path,
           "it is compressed with filter {} ({}), which is not read; write it again with gzip or "
           "without compression",
           static_cast<int>(filter), name[0] == '\0' ? "no name" : name.data());
    }
    array->filters.push_back({.id = filter, .item_bytes = n_values > 0 ? value : 0});
  }
}

// The lock is held.
void H5File::OpenHeader(const std::string& path, Array* array) const {
  outside_.clear();
  array->path = path;
  array->id = Handle(H5Dopen2(file_.id(), path.c_str(), arrays_.id()), &H5Dclose);
  if (array->id.id() < 0) RefuseToOpen(path);
  array->layout = Handle(H5Dget_create_plist(array->id.id()), &H5Pclose);
  RequireOwnBytes(path, array->layout.id());
  array->space = Handle(H5Dget_space(array->id.id()), &H5Sclose);
}

std::string H5File::WrongRank(const std::string& path) const {
  Array array;
  const std::lock_guard lock(core::Hdf5Lock());
  OpenHeader(path, &array);
  return RankFault(H5Sget_simple_extent_ndims(array.space.id()));
}

void H5File::OpenArray(const std::string& path, Array* array) const {
  const std::lock_guard lock(core::Hdf5Lock());
  OpenHeader(path, array);
  ReadFilters(array);
  array->type = Handle(H5Dget_type(array->id.id()), &H5Tclose);
  array->grid.item = H5Tget_size(array->type.id());

  const int rank = H5Sget_simple_extent_ndims(array->space.id());
  if (const std::string fault = RankFault(rank); !fault.empty()) Fail(path, fault);
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(array->space.id(), sizes.data(), nullptr);
  for (const hsize_t size : sizes) {
    if (size > std::numeric_limits<std::int32_t>::max()) {
      Fail(path, "expected dimensions below 2^31, found {}", size);
    }
    array->grid.shape.push_back(static_cast<std::int64_t>(size));
  }
  if (H5Pget_layout(array->layout.id()) != H5D_CHUNKED) return;
  if (H5Pget_chunk(array->layout.id(), rank, sizes.data()) != rank) Fail(path, LibraryMessage());
  array->grid.chunk.assign(sizes.begin(), sizes.end());
}

ArrayHeader H5File::Header(const std::string& path) const {
  Array array;
  OpenArray(path, &array);
  const std::lock_guard lock(core::Hdf5Lock());
  ArrayHeader header{.shape = array.grid.shape};
  ReadType(array.type.id(), &header);
  if (array.is_in_chunks()) {
    header.chunk_rows = array.grid.chunk[0];
    header.chunk_bytes = Product(array.grid.chunk) * static_cast<double>(header.item_bytes);
  }
  RequireBytes(array, header);
  return header;
}

// Data that was never written takes no space. The lock is held.
void H5File::RequireBytes(const Array& array, const ArrayHeader& header) const {
  const hsize_t stored = H5Dget_storage_size(array.id.id());
  const double most = static_cast<double>(stored) * kMaxCompression;
  if (Product(header.shape) * static_cast<double>(header.item_bytes) <= most) return;
  hsize_t n_chunks = 0;
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  const bool is_sparse = array.is_in_chunks()
                             ? H5Dget_num_chunks(array.id.id(), array.space.id(), &n_chunks) >= 0 &&
                                   static_cast<double>(n_chunks) * header.chunk_bytes <= most
                             : H5Dget_space_status(array.id.id(), &status) >= 0 &&
                                   status == H5D_SPACE_STATUS_NOT_ALLOCATED;
  if (is_sparse) return;
  Fail(array.path, "expected data for its shape {}, found only {} bytes; the file is incomplete",
       ToString(header.shape), stored);
}

// The bytes of a chunk in the file; 0 if it was never written. The lock is held.
hsize_t H5File::StoredBytes(const Array& array, const hsize_t* first) const {
  hsize_t n_stored = 0;
  if (H5Dget_chunk_storage_size(array.id.id(), first, &n_stored) >= 0) return n_stored;
  // libhdf5 1.10 fails for a chunk that was never written; this call is slow
  const std::string message = LibraryMessage();
  haddr_t address = HADDR_UNDEF;
  unsigned left_out = 0;
  if (H5Dget_chunk_info_by_coord(array.id.id(), first, &left_out, &address, &n_stored) < 0 ||
      address != HADDR_UNDEF) {
    Fail(array.path, message);
  }
  return 0;
}

std::vector<std::byte> H5File::ReadChunk(const Array& array, const Shape& first) const {
  const std::size_t n_bytes = array.grid.ChunkBytes();
  const std::vector<hsize_t> offset(first.begin(), first.end());
  std::vector<std::byte> stored;
  std::vector<std::byte> fill;  // an element of chunks that are not stored
  std::uint32_t left_out = 0;
  {
    const std::lock_guard lock(core::Hdf5Lock());
    const hsize_t n_stored = StoredBytes(array, offset.data());
    if (n_stored > MaxStoredBytes(n_bytes)) {
      Fail(array.path, "a chunk has {} bytes in the file, more than {} bytes can need", n_stored,
           n_bytes);
    }
    if (n_stored == 0) {
      fill.resize(array.grid.item);
      H5Pget_fill_value(array.layout.id(), array.type.id(), fill.data());
    }
    stored.resize(n_stored);
    if (n_stored > 0 &&
        H5Dread_chunk(array.id.id(), H5P_DEFAULT, offset.data(), &left_out, stored.data()) < 0) {
      Fail(array.path, LibraryMessage());
    }
  }
  if (!stored.empty()) {
    return UndoFilters(array.filters, left_out, std::move(stored), n_bytes, Describe(array.path));
  }
  stored.resize(n_bytes);
  for (std::size_t i = 0; i < n_bytes; ++i) stored[i] = fill[i % fill.size()];
  return stored;
}

void H5File::ReadChunkRows(const Array& array, std::int64_t begin, std::int64_t end,
                           std::optional<DType> dtype, std::span<std::byte> out) const {
  const ChunkGrid& grid = array.grid;
  Shape rows = grid.shape;
  rows[0] = end - begin;
  const auto n = static_cast<std::size_t>(NumElements(rows));
  const std::size_t wanted = dtype ? SizeOf(*dtype) : grid.item;
  if (end > grid.shape[0] || n * wanted != out.size()) Fail(array.path, kChanged);
  bool is_native = !dtype;
  if (dtype) {
    const std::lock_guard lock(core::Hdf5Lock());
    is_native = H5Tequal(array.type.id(), NativeType(*dtype)) > 0;
  }
  std::vector<std::byte> other(is_native ? 0 : n * std::max(wanted, grid.item));
  const std::span<std::byte> elements = is_native ? out : std::span(other);
  for (const Shape& first : grid.Chunks(begin, end)) {
    grid.Copy(first, ReadChunk(array, first), begin, end, elements);
  }
  if (is_native) return;
  const std::lock_guard lock(core::Hdf5Lock());
  if (H5Tconvert(array.type.id(), NativeType(*dtype), n, other.data(), nullptr, H5P_DEFAULT) < 0) {
    Fail(array.path, LibraryMessage());
  }
  std::copy_n(other.begin(), out.size(), out.begin());
}

void H5File::ReadRows(const std::string& path, std::int64_t begin, std::int64_t end,
                      std::optional<DType> dtype, std::span<std::byte> out) const {
  if (begin == end || out.empty()) return;
  Array array;
  OpenArray(path, &array);
  if (!array.is_in_chunks()) return ReadPiece(array, begin, end, dtype, out);
  // in parts, because elements of another type are held twice
  const std::size_t row_bytes = out.size() / static_cast<std::size_t>(end - begin);
  const std::int64_t per_chunk = array.grid.chunk[0];
  const auto fit = static_cast<std::int64_t>(kPartBytes / std::max<std::size_t>(row_bytes, 1));
  const std::int64_t n_rows = std::max(fit / per_chunk, std::int64_t{1}) * per_chunk;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t next = std::min(at / n_rows * n_rows + n_rows, end);
    const auto n_bytes = static_cast<std::size_t>(next - at) * row_bytes;
    ReadChunkRows(array, at, next, dtype, out.first(n_bytes));
    out = out.subspan(n_bytes);
    at = next;
  }
}

// Of an array that is in one piece.
void H5File::ReadPiece(const Array& array, std::int64_t begin, std::int64_t end,
                       std::optional<DType> dtype, std::span<std::byte> out) const {
  const std::lock_guard lock(core::Hdf5Lock());
  std::vector<hsize_t> first(array.grid.shape.size(), 0);
  std::vector<hsize_t> count(array.grid.shape.begin(), array.grid.shape.end());
  first[0] = static_cast<hsize_t>(begin);
  count[0] = static_cast<hsize_t>(end - begin);

  const hid_t type = dtype ? NativeType(*dtype) : array.type.id();
  const double n_elements = Product(Shape(count.begin(), count.end()));
  if (n_elements * static_cast<double>(H5Tget_size(type)) != static_cast<double>(out.size())) {
    Fail(array.path, kChanged);
  }
  const Handle rows(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                    &H5Sclose);
  if (H5Sselect_hyperslab(array.space.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(),
                          nullptr) < 0 ||
      H5Dread(array.id.id(), type, rows.id(), array.space.id(), H5P_DEFAULT, out.data()) < 0) {
    Fail(array.path, "libhdf5 cannot read rows {} to {}: {}", begin, end, LibraryMessage());
  }
}

bool NaturalLess(const std::string& a, const std::string& b) {
  return ::strverscmp(a.c_str(), b.c_str()) < 0;
}

}  // namespace dp_bench::hdf5
