// An array of version 2 or 3: an odd byte, the zarr.json, a NUL, then the one file that is there
// for every even chunk or shard; or an even byte and a .zarray instead.
#include <algorithm>
#include <vector>

#include "data/zarr/array.h"
#include "fuzz.h"

using namespace dp_bench;

namespace {

class FuzzStore final : public zarr::Store {
 public:
  FuzzStore(std::string metadata_name, std::span<const std::byte> metadata,
            std::span<const std::byte> chunk)
      : metadata_name_(std::move(metadata_name)), metadata_(metadata), chunk_(chunk) {}

  std::vector<std::string> ListFolders(const std::string&) const override { return {}; }
  std::string Describe(std::string_view name) const override { return std::string(name); }

 private:
  class FuzzFile final : public File {
   public:
    explicit FuzzFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::uint64_t size() const override { return bytes_.size(); }
    void Read(std::uint64_t offset, std::span<std::byte> out) override {
      DPB_ASSERT(offset <= size() && out.size() <= size() - offset);
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    }

   private:
    std::span<const std::byte> bytes_;
  };

  std::unique_ptr<File> Open(const std::string& name) const override {
    if (name == metadata_name_) return std::make_unique<FuzzFile>(metadata_);
    const bool is_chunk = !name.ends_with("zarr.json") && !name.ends_with(".zarray") &&
                          !name.ends_with(".zattrs") && (name.back() - '0') % 2 == 0;
    return is_chunk ? std::make_unique<FuzzFile>(chunk_) : nullptr;
  }

  std::string metadata_name_;
  std::span<const std::byte> metadata_;
  std::span<const std::byte> chunk_;
};

}  // namespace

DPB_FUZZ(input) {
  constexpr std::int64_t kMaxElements = 1 << 18;
  const char* const name = input.TakeByte() % 2 == 1 ? "a/zarr.json" : "a/.zarray";
  const auto metadata = std::as_bytes(std::span(input.TakeText()));
  fuzz::Accepts([&] {
    const FuzzStore store(name, metadata, input.bytes());
    // every second chunk exists here, however many there are
    const std::optional<zarr::ZarrMetadata> found = zarr::FindZarrArray(store, "a");
    if (!found || found->num_chunks > kMaxElements / 8) return;
    const zarr::ZarrArray array(store, "a");
    if (array.num_elements() > kMaxElements || array.chunk_bytes() > kMaxElements) return;
    std::vector<std::byte> all(static_cast<std::size_t>(array.num_elements()) * sizeof(float));
    array.Load(DType::kFloat32, 1, all);
    if (array.num_steps() == 0 || all.empty()) return;
    reader::ChunkCache cache(array.chunk_bytes());
    std::vector<std::byte> step(static_cast<std::size_t>(array.step_elements()) * sizeof(float));
    array.ReadSteps(array.num_steps() - 1, array.num_steps(), DType::kFloat32, &cache, step);
    DPB_ASSERT(std::equal(step.rbegin(), step.rend(), all.rbegin()));
  });
}
