#include "data/zarr/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "dp_bench/error.h"

namespace dp_bench::zarr {

std::unique_ptr<Store> OpenStore(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) return OpenFolderStore(path);
  if (std::filesystem::is_regular_file(status)) return OpenZipStore(path);
  throw Error(
      ErrorCode::kData,
      fmt::format("no zarr folder or .zarr.zip at '{}'{}; `scripts/get_data.sh pusht` fetches "
                  "the PushT demonstrations, `dp_bench collect` makes data with an env's expert",
                  path.string(), error ? " (" + error.message() + ")" : ""));
}

void RequireSafeName(std::string_view name) {
  std::string_view rest = name;
  bool is_safe = name.find('\0') == std::string_view::npos;
  while (is_safe) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    is_safe = !part.empty() && part != "." && part != "..";
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (is_safe) return;

  std::string shown(name.substr(0, 80));
  std::replace(shown.begin(), shown.end(), '\0', '?');
  throw Error(ErrorCode::kData,
              fmt::format("'{}' is not the name of an array; expected a relative path such as "
                          "data/action, which cannot leave the zarr folder",
                          shown));
}

}  // namespace dp_bench::zarr
