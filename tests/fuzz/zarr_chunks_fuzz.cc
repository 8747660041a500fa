// A compressed chunk: a byte for the compressor and its checksums, three for the size that the
// metadata promise, then the file.
#include <algorithm>
#include <vector>

#include "data/zarr/chunk_codec.h"
#include "fuzz.h"

using namespace dp_bench;
using zarr::Compressor;

DPB_FUZZ(input) {
  constexpr std::int64_t kMaxChunkBytes = 1 << 18;
  const unsigned kind = input.TakeByte();
  const auto compressor = static_cast<Compressor>(kind % 4);
  std::int64_t chunk_bytes = 0;
  for (int i = 0; i < 3; ++i) chunk_bytes = chunk_bytes * 256 + input.TakeByte();
  chunk_bytes = chunk_bytes % kMaxChunkBytes + 1;
  fuzz::Accepts([&] {
    const auto file = zarr::TakeChecksums(input.bytes(), kind / 4 % 2, "0.0");
    const auto header = file.first(std::min(file.size(), zarr::kChunkHeaderBytes));
    zarr::CheckChunkHeader(compressor, header, file.size(), chunk_bytes, "0.0");
    zarr::DecoderBytes(compressor, header, chunk_bytes);
    std::vector<std::byte> chunk(static_cast<std::size_t>(chunk_bytes));
    zarr::DecodeChunk(compressor, file, chunk, "0.0");
  });
}
