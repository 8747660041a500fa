// A check of MP4 files (ISO/IEC 14496-12) before libav reads them. libav allocates an index of as
// many samples as a file claims to have, which may be billions in a file of a few bytes.
#pragma once

#include <filesystem>

namespace dp_bench::media {

/// Throws Error{kMedia} naming the file if its tables claim more samples than the file has bytes,
/// or more entries than fit into them, or if it consists of absurdly many boxes. Everything else is
/// left to libav.
void RequirePlausibleTables(const std::filesystem::path& path);

}  // namespace dp_bench::media
