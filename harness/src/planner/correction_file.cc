#include "planner/correction_file.h"

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/sha256.h"
#include "run/safetensors.h"

namespace dp_bench::planner {

std::shared_ptr<const control::CorrectionHead> ReadCorrection(
    const control::ChunkingConfig& chunking, const PolicySpec& spec) {
  if (chunking.method != control::ChunkingMethod::kA2c2) return nullptr;
  const std::filesystem::path file = *chunking.corrector;
  const std::string found = CorrectionHash(file);
  if (chunking.corrector_sha256.value_or(found) != found) {
    throw CheckpointError("{}: expected the file with the SHA-256 {}, found {}", file.string(),
                          *chunking.corrector_sha256, found);
  }
  return std::make_shared<control::CorrectionHead>(run::ReadSafetensors(file).tensors,
                                                   spec.shape_meta, spec.horizons, file.string());
}

std::string CorrectionHash(const std::filesystem::path& file) {
  constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
  return core::Sha256Hex(core::ReadFile(file, kMaxBytes));
}

}  // namespace dp_bench::planner
