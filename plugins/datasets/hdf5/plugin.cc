// The only export of the plugin, and what it recognizes: HDF5 files, and folders of them.
#include "dp_bench/plugin.h"

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "hdf5_dataset.h"

namespace {

namespace fs = std::filesystem;

// A file may have any name. Its signature is at byte 0, 512, 1024, 2048, ...
bool IsHdf5File(const fs::path& path) {
  constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n");
  std::error_code error;
  if (fs::is_directory(path, error)) return false;
  if (dp_bench::hdf5::IsHdf5Name(path)) return true;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string found(kSignature.size(), '\0');
  for (std::streamoff at = 0; file.seekg(at) && file.read(found.data(), std::ssize(found));
       at = at == 0 ? 512 : 2 * at) {
    if (found == kSignature) return true;
  }
  return false;
}

// A file, or a folder with a file per episode. A folder with nothing but folders of them is refused
// with advice; those of other formats have metadata.
bool IsHdf5(const fs::path& path) {
  if (IsHdf5File(path) || dp_bench::hdf5::HasHdf5Files(path)) return true;
  std::error_code error;  // a folder that cannot be listed has none
  if (fs::exists(path / "meta", error)) return false;
  const fs::directory_iterator entries(path, error);
  bool has_files = false;
  for (const fs::directory_entry& entry : entries) {
    if (!entry.is_directory(error)) return false;
    has_files = has_files || dp_bench::hdf5::HasHdf5Files(entry.path());
  }
  return has_files;
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Dataset, "hdf5", "1.0.0", &dp_bench::hdf5::Hdf5Dataset::Create, &IsHdf5)
