#include "data/hdf5/h5_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <limits>
#include <mutex>
#include <string_view>

#include "core/library_lock.h"
#include "core/regular_file.h"
#include "data/hdf5/chunks.h"
#include "dp_bench/error.h"

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

double Product(std::span<const hsize_t> sizes) {
  double product = 1.0;
  for (const hsize_t size : sizes) product *= static_cast<double>(size);
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
  switch (dtype) {
    case DType::kUInt8:
      return H5T_NATIVE_UINT8;
    case DType::kUInt16:
      return H5T_NATIVE_UINT16;
    case DType::kInt32:
      return H5T_NATIVE_INT32;
    case DType::kInt64:
      return H5T_NATIVE_INT64;
    case DType::kFloat32:
      return H5T_NATIVE_FLOAT;
    case DType::kFloat64:
      return H5T_NATIVE_DOUBLE;
  }
  return -1;
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
  throw Error(ErrorCode::kData,
              fmt::format("{}: expected a complete HDF5 file; libhdf5 says: {}. Check the path, or "
                          "copy the file again.",
                          path_.string(), LibraryMessage()));
}

H5File::~H5File() {
  const std::lock_guard lock(core::Hdf5Lock());
  for (Handle* handle : {&file_, &arrays_, &links_}) *handle = Handle();
}

void H5File::Fail(const std::string& path, const std::string& what) const {
  throw Error(ErrorCode::kData, fmt::format("{}: {}", Describe(path), what));
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

Handle H5File::OpenArray(const std::string& path) const {
  outside_.clear();
  Handle array(H5Dopen2(file_.id(), path.c_str(), arrays_.id()), &H5Dclose);
  if (array.id() < 0) RefuseToOpen(path);
  return array;
}

void H5File::RefuseToOpen(const std::string& path) const {
  if (!outside_.empty()) {
    Fail(path, fmt::format("expected data in the file, found a link into another file, '{}'; copy "
                           "the data into this one",
                           outside_));
  }
  Fail(path, "expected an array or group; libhdf5 says: " + LibraryMessage());
}

std::vector<std::string> H5File::Names(const std::string& path) const {
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle group = Open(path);
  H5G_info_t info;
  if (H5Gget_info(group.id(), &info) < 0) Fail(path, LibraryMessage());
  if (info.nlinks > kMaxNames) {
    Fail(path, fmt::format("expected at most {} names, found {}", kMaxNames, info.nlinks));
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
    Fail(path, fmt::format("expected names of at most {} bytes", kMaxTextBytes));
  }
  std::ranges::sort(names, &NaturalLess);
  return names;
}

void H5File::WithAttribute(const std::string& path, const std::string& name,
                           const std::function<void(hid_t, hid_t)>& use) const {
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle object = Open(path);
  const htri_t exists = H5Aexists(object.id(), name.c_str());
  if (exists < 0) Fail(path, fmt::format("the attribute '{}': {}", name, LibraryMessage()));
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
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle array = OpenArray(path);
  const Handle type(H5Dget_type(array.id()), &H5Tclose);
  if (header.shape.size() != 1 || H5Tget_class(type.id()) != H5T_STRING) {
    Fail(path, fmt::format("expected a list of texts, found {} {}", header.dtype,
                           ToString(header.shape)));
  }
  const Handle all(H5Dget_space(array.id()), &H5Sclose);
  const hsize_t one = 1;
  const Handle single(H5Screate_simple(1, &one, nullptr), &H5Sclose);
  std::vector<std::string> texts;
  for (hsize_t i = 0; i < static_cast<hsize_t>(header.shape[0]); ++i) {
    H5Sselect_hyperslab(all.id(), H5S_SELECT_SET, &i, nullptr, &one, nullptr);
    texts.push_back(ReadText(type.id(), kMaxTextBytes, [&](void* out) {
      return H5Dread(array.id(), type.id(), single.id(), all.id(), H5P_DEFAULT, out);
    }));
    if (!texts.back().empty() && texts.back().size() <= kMaxTextBytes) continue;
    Fail(path, fmt::format("expected a text of 1 to {} bytes as entry {}", kMaxTextBytes, i));
  }
  return texts;
}

// The layout must be known before anything else is asked: the size of an array that is put together
// from other files is in these files.
void H5File::RequireOwnBytes(const std::string& path, hid_t layout) const {
  if (H5Pget_layout(layout) != H5D_VIRTUAL && H5Pget_external_count(layout) == 0) return;
  Fail(path,
       "expected data in the file, found a reference to other files; copy the data into "
       "this one");
}

void H5File::RequireFilters(const std::string& path, hid_t layout) const {
  for (int i = 0; i < H5Pget_nfilters(layout); ++i) {
    std::array<char, 64> name = {};
    unsigned flags = 0;
    std::size_t n_values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(layout, static_cast<unsigned>(i), &flags, &n_values,
                                               nullptr, name.size() - 1, name.data(), nullptr);
    if (IsKnownFilter(filter)) continue;
    Fail(path, fmt::format("it is compressed with filter {} ({}), which is not read; "
                           "write it again with gzip or without compression",
                           static_cast<int>(filter), name[0] == '\0' ? "no name" : name.data()));
  }
}

void H5File::ReadChunks(const std::string& path, hid_t layout, ArrayHeader* header) const {
  if (H5Pget_layout(layout) != H5D_CHUNKED) return;
  const auto rank = static_cast<int>(header->shape.size());
  std::vector<hsize_t> chunk(header->shape.size());
  if (H5Pget_chunk(layout, rank, chunk.data()) != rank) Fail(path, LibraryMessage());
  header->chunk_rows = static_cast<std::int64_t>(chunk[0]);
  header->chunk_bytes = Product(chunk) * static_cast<double>(header->item_bytes);
}

ArrayHeader H5File::Header(const std::string& path) const {
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle array = OpenArray(path);
  const Handle layout(H5Dget_create_plist(array.id()), &H5Pclose);
  RequireOwnBytes(path, layout.id());
  RequireFilters(path, layout.id());
  const Handle type(H5Dget_type(array.id()), &H5Tclose);
  const Handle space(H5Dget_space(array.id()), &H5Sclose);
  ArrayHeader header;
  ReadType(type.id(), &header);

  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 1 || rank > kMaxRank) {
    Fail(path, fmt::format("expected 1 to {} dimensions, found {}", kMaxRank, rank));
  }
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr);
  for (const hsize_t size : sizes) {
    if (size > std::numeric_limits<std::int32_t>::max()) {
      Fail(path, fmt::format("expected dimensions below 2^31, found {}", size));
    }
    header.shape.push_back(static_cast<std::int64_t>(size));
  }
  const double n_bytes = Product(sizes) * static_cast<double>(header.item_bytes);
  const hsize_t stored = H5Dget_storage_size(array.id());
  if (n_bytes > static_cast<double>(stored) * kMaxCompression) {
    Fail(path, fmt::format("expected data for its shape {}, found only {} bytes; the file is "
                           "incomplete",
                           ToString(header.shape), stored));
  }
  ReadChunks(path, layout.id(), &header);
  return header;
}

// An array that is open in chunks. It is closed under the lock.
struct H5File::OpenChunks {
  OpenChunks() = default;
  OpenChunks(const OpenChunks&) = delete;
  OpenChunks& operator=(const OpenChunks&) = delete;
  ~OpenChunks() {
    const std::lock_guard lock(core::Hdf5Lock());
    array = Handle();
    type = Handle();
  }

  std::string path;
  Handle array;
  Handle type;  // of the elements in the file
  ChunkGrid grid = {};
  std::vector<ChunkFilter> filters;
  std::vector<std::byte> fill;  // an element of chunks that are not stored
};

// False if the array is not in chunks.
bool H5File::OpenInChunks(const std::string& path, OpenChunks* chunks) const {
  const std::lock_guard lock(core::Hdf5Lock());
  chunks->path = path;
  chunks->array = OpenArray(path);
  const Handle layout(H5Dget_create_plist(chunks->array.id()), &H5Pclose);
  if (H5Pget_layout(layout.id()) != H5D_CHUNKED) return false;
  chunks->type = Handle(H5Dget_type(chunks->array.id()), &H5Tclose);
  const Handle space(H5Dget_space(chunks->array.id()), &H5Sclose);
  std::array<hsize_t, kMaxRank> shape = {};
  std::array<hsize_t, kMaxRank> chunk = {};
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 1 || rank > kMaxRank || H5Pget_chunk(layout.id(), kMaxRank, chunk.data()) != rank) {
    Fail(path, kChanged);
  }
  H5Sget_simple_extent_dims(space.id(), shape.data(), nullptr);
  chunks->grid = {.shape = Shape(shape.begin(), shape.begin() + rank),
                  .chunk = Shape(chunk.begin(), chunk.begin() + rank),
                  .item = H5Tget_size(chunks->type.id())};
  for (int i = 0; i < H5Pget_nfilters(layout.id()); ++i) {
    unsigned flags = 0;
    std::size_t n_values = 1;
    unsigned value = 0;
    const H5Z_filter_t filter = H5Pget_filter2(layout.id(), static_cast<unsigned>(i), &flags,
                                               &n_values, &value, 0, nullptr, nullptr);
    chunks->filters.push_back({.id = filter, .item_bytes = n_values > 0 ? value : 0});
  }
  chunks->fill.resize(chunks->grid.item);
  H5Pget_fill_value(layout.id(), chunks->type.id(), chunks->fill.data());
  return true;
}

std::vector<std::byte> H5File::ReadChunk(const OpenChunks& chunks, const Shape& first) const {
  const std::size_t n_bytes = chunks.grid.ChunkBytes();
  const std::vector<hsize_t> offset(first.begin(), first.end());
  std::vector<std::byte> stored;
  std::uint32_t left_out = 0;
  {
    const std::lock_guard lock(core::Hdf5Lock());
    hsize_t n_stored = 0;
    if (H5Dget_chunk_storage_size(chunks.array.id(), offset.data(), &n_stored) < 0) {
      Fail(chunks.path, LibraryMessage());
    }
    if (n_stored > MaxStoredBytes(n_bytes)) {
      Fail(chunks.path, fmt::format("a chunk has {} bytes in the file, more than {} bytes can need",
                                    n_stored, n_bytes));
    }
    stored.resize(n_stored);
    if (n_stored > 0 && H5Dread_chunk(chunks.array.id(), H5P_DEFAULT, offset.data(), &left_out,
                                      stored.data()) < 0) {
      Fail(chunks.path, LibraryMessage());
    }
  }
  if (!stored.empty()) {
    return UndoFilters(chunks.filters, left_out, std::move(stored), n_bytes, Describe(chunks.path));
  }
  stored.resize(n_bytes);
  for (std::size_t i = 0; i < n_bytes; ++i) stored[i] = chunks.fill[i % chunks.fill.size()];
  return stored;
}

void H5File::ReadChunkRows(const OpenChunks& chunks, std::int64_t begin, std::int64_t end,
                           std::optional<DType> dtype, std::span<std::byte> out) const {
  const ChunkGrid& grid = chunks.grid;
  Shape rows = grid.shape;
  rows[0] = end - begin;
  const auto n = static_cast<std::size_t>(NumElements(rows));
  const std::size_t wanted = dtype ? SizeOf(*dtype) : grid.item;
  if (end > grid.shape[0] || n * wanted != out.size()) Fail(chunks.path, kChanged);
  bool is_native = !dtype;
  if (dtype) {
    const std::lock_guard lock(core::Hdf5Lock());
    is_native = H5Tequal(chunks.type.id(), NativeType(*dtype)) > 0;
  }
  std::vector<std::byte> other(is_native ? 0 : n * std::max(wanted, grid.item));
  const std::span<std::byte> elements = is_native ? out : std::span(other);
  for (const Shape& first : grid.Chunks(begin, end)) {
    grid.Copy(first, ReadChunk(chunks, first), begin, end, elements);
  }
  if (is_native) return;
  const std::lock_guard lock(core::Hdf5Lock());
  if (H5Tconvert(chunks.type.id(), NativeType(*dtype), n, other.data(), nullptr, H5P_DEFAULT) < 0) {
    Fail(chunks.path, LibraryMessage());
  }
  std::copy_n(other.begin(), out.size(), out.begin());
}

void H5File::ReadRows(const std::string& path, std::int64_t begin, std::int64_t end,
                      std::optional<DType> dtype, std::span<std::byte> out) const {
  if (begin == end || out.empty()) return;
  OpenChunks chunks;
  if (!OpenInChunks(path, &chunks)) return ReadPiece(path, begin, end, dtype, out);
  // in parts, because elements of another type are held twice
  const std::size_t row_bytes = out.size() / static_cast<std::size_t>(end - begin);
  const std::int64_t per_chunk = chunks.grid.chunk[0];
  const auto fit = static_cast<std::int64_t>(kPartBytes / std::max<std::size_t>(row_bytes, 1));
  const std::int64_t n_rows = std::max(fit / per_chunk, std::int64_t{1}) * per_chunk;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t next = std::min(at / n_rows * n_rows + n_rows, end);
    const auto n_bytes = static_cast<std::size_t>(next - at) * row_bytes;
    ReadChunkRows(chunks, at, next, dtype, out.first(n_bytes));
    out = out.subspan(n_bytes);
    at = next;
  }
}

// Of an array that is in one piece.
void H5File::ReadPiece(const std::string& path, std::int64_t begin, std::int64_t end,
                       std::optional<DType> dtype, std::span<std::byte> out) const {
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle array = OpenArray(path);
  const Handle space(H5Dget_space(array.id()), &H5Sclose);
  const Handle stored(H5Dget_type(array.id()), &H5Tclose);
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 1 || rank > kMaxRank) Fail(path, kChanged);
  std::vector<hsize_t> first(static_cast<std::size_t>(rank), 0);
  std::vector<hsize_t> count(first.size());
  H5Sget_simple_extent_dims(space.id(), count.data(), nullptr);
  first[0] = static_cast<hsize_t>(begin);
  count[0] = static_cast<hsize_t>(end - begin);

  const hid_t type = dtype ? NativeType(*dtype) : stored.id();
  if (Product(count) * static_cast<double>(H5Tget_size(type)) != static_cast<double>(out.size())) {
    Fail(path, kChanged);
  }
  const Handle rows(H5Screate_simple(rank, count.data(), nullptr), &H5Sclose);
  if (H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(),
                          nullptr) < 0 ||
      H5Dread(array.id(), type, rows.id(), space.id(), H5P_DEFAULT, out.data()) < 0) {
    Fail(path, fmt::format("libhdf5 cannot read rows {} to {}: {}", begin, end, LibraryMessage()));
  }
}

bool NaturalLess(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto end_of_number = [&](const std::string& text, std::size_t at) {
    while (at < text.size() && is_digit(text[at])) ++at;
    return at;
  };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    while (i + 1 < a.size() && a[i] == '0' && is_digit(a[i + 1])) ++i;
    while (j + 1 < b.size() && b[j] == '0' && is_digit(b[j + 1])) ++j;
    const std::string_view left = std::string_view(a).substr(i, end_of_number(a, i) - i);
    const std::string_view right = std::string_view(b).substr(j, end_of_number(b, j) - j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
    i += left.size();
    j += right.size();
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // such as demo_1 and demo_01
}

}  // namespace dp_bench::hdf5
