#include "hdf5_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>

#include "data/hdf5/trial.h"
#include "data/zarr/conversion.h"
#include "dp_bench/error.h"

namespace dp_bench::hdf5 {
namespace {

constexpr double kBytesPerMb = 1 << 20;
constexpr const char* kAction = "action";

// Pictures that are not stored in chunks are read in blocks of about this size.
constexpr std::int64_t kBlockBytes = 256 << 10;

// The cache rounds blocks up to whole cache lines.
constexpr std::size_t kBlockOverhead = 64;

double MachineMemory() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

[[noreturn]] void RefuseLimit(double limit, const std::string& what, double needed) {
  throw Error(
      ErrorCode::kConfig,
      fmt::format("dataset.params.memory_limit_mb is {:.6g}, but {}; expected {:.0f} or more",
                  limit / kBytesPerMb, what, std::ceil(needed / kBytesPerMb)));
}

// The array that every episode has; none if it is to be found.
std::optional<std::string> ActionOf(const Hdf5Config& config) {
  const auto action = config.keys.find(kAction);
  if (action == config.keys.end() || action->second.array.empty()) return std::nullopt;
  return action->second.array;
}

std::optional<KeyType> ParseType(const std::optional<std::string>& text) {
  for (const KeyType type : {KeyType::kLowDim, KeyType::kRgb, KeyType::kDepth}) {
    if (text == Name(type)) return type;
  }
  return std::nullopt;
}

std::string Describe(const KeySpec& key) {
  return fmt::format("{} {} {}", Name(key.type), Name(key.dtype), ToString(key.StorageShape()));
}

// [3, H, W] to [H, W, 3].
void InterleavePlanes(std::span<const std::byte> planes, std::span<std::byte> out) {
  const std::size_t n = planes.size() / 3;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      out[3 * i + channel] = planes[channel * n + i];
    }
  }
}

}  // namespace

std::unique_ptr<Dataset> Hdf5Dataset::Create(const Config& params) {
  const Hdf5Config config = Hdf5Config::FromConfig(params);
  TryInChild(config.path, [&config] { const Hdf5Dataset trial(config); });
  return std::make_unique<Hdf5Dataset>(config);
}

Hdf5Dataset::Hdf5Dataset(const Hdf5Config& config)
    : memory_limit_(config.memory_limit_mb * kBytesPerMb),
      files_({.path = config.path, .action = ActionOf(config), .filter_key = config.filter_key}),
      rows_(std::make_unique<EncodedPictures>()) {
  spec_.fps = config.fps.value_or(files_.fps().value_or(0.0));
  for (const Demonstration& demonstration : files_.demonstrations()) {
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + demonstration.n_steps);
  }
  AddKeys(config);
  HoldNumbers();
  LoadNumbers();
  PrepareCache();
}

void Hdf5Dataset::AddKeys(const Hdf5Config& config) {
  std::map<std::string, KeyConfig> all;
  all[kAction] = {.array = files_.action()};
  for (const DemonstrationFiles::NamedArray& one : files_.Observations()) {
    const auto [other, is_new] = all.emplace(one.key, KeyConfig{.array = one.array});
    if (is_new || !config.keys.empty()) continue;
    throw Error(ErrorCode::kData,
                fmt::format("{}: the arrays '{}' and '{}' would have the same key '{}'; name them "
                            "in dataset.params.keys",
                            config.path.string(), other->second.array, one.array, one.key));
  }
  for (auto [name, key] : config.keys.empty() ? all : config.keys) {
    if (key.array.empty()) {
      const auto full = all.find(name);
      if (full == all.end()) {
        throw Error(
            ErrorCode::kConfig,
            fmt::format("dataset key '{}': {} has no key of this name, and no array is "
                        "given for it; its keys are: {}",
                        name, config.path.string(), fmt::join(all | std::views::keys, ", ")));
      }
      key.array = full->second.array;
    }
    AddKey(name, key, !config.keys.empty() || name == kAction);
  }
  files_.WarnOfLeftOut();
}

// The question to ReadAs about an array of one episode.
ArrayQuestion Hdf5Dataset::Ask(const H5File& file, const std::string& path, const KeySource& source,
                               const std::string& name) const {
  ArrayQuestion question{
      .key = name, .header = file.Header(path), .type = source.type, .picture = {}};
  const ArrayHeader& header = question.header;
  if (header.chunk_bytes > memory_limit_) {
    RefuseLimit(memory_limit_,
                fmt::format("{} has chunks of {:.0f} bytes, which are decoded as a whole", path,
                            header.chunk_bytes),
                header.chunk_bytes);
  }
  const bool is_text = header.kind == ArrayHeader::Kind::kText && header.shape.size() == 1;
  const bool is_bytes = header.Is(ArrayHeader::Kind::kUnsigned, 1) && header.shape.size() == 2;
  if ((!is_text && !is_bytes) || header.shape[0] == 0) return question;
  if (source.stored == StoredAs::kFiles) {  // known from the first episode
    question.picture = source.picture;
    return question;
  }
  const auto n_bytes = header.item_bytes * static_cast<std::size_t>(is_text ? 1 : header.shape[1]);
  if (static_cast<double>(n_bytes) > memory_limit_) {
    RefuseLimit(memory_limit_, fmt::format("{} has rows of {} bytes", path, n_bytes),
                static_cast<double>(n_bytes));
  }
  std::vector<std::byte> row(n_bytes);
  file.ReadRows(path, 0, 1, std::nullopt, row);
  if (!EncodedPictures::IsPicture(row)) return question;
  try {
    const EncodedPictures::Size size = rows_->SizeOf(row);
    question.picture = {size.height, size.width};
  } catch (Error& error) {
    error.AddContext(fmt::format("in the first row of {}", path));
    throw;
  }
  return question;
}

// Leaves out arrays that no key names and that are neither numbers nor pictures.
void Hdf5Dataset::AddKey(const std::string& name, const KeyConfig& config, bool is_asked_for) {
  const Demonstration& first = files_.demonstrations()[0];
  const std::shared_ptr<const H5File> file = files_.Open(first);
  const std::string path = first.Path(config.array);
  KeySource source{.array = config.array, .type = config.type, .numbers = {}, .pictures = {}};
  if (!is_asked_for && file->Find(path) != H5File::ObjectKind::kArray) {
    return files_.LeaveOut(config.array, "a link into another file, or to nothing");
  }
  if (!source.type) source.type = ParseType(file->TextAttribute(path, kTypeAttribute));
  std::string obstacle;
  const ArrayQuestion question = Ask(*file, path, source, name);
  std::optional<ArrayReading> reading = ReadAs(question, &obstacle);
  if (!reading && !is_asked_for) return files_.LeaveOut(config.array, obstacle);
  if (!reading) {
    file->Fail(path, fmt::format("expected an array for the key '{}', found {} {}: {}", name,
                                 question.header.dtype, ToString(question.header.shape), obstacle));
  }
  source.stored = reading->stored;
  source.picture = question.picture;
  source.step_bytes = reading->spec.ByteSize();
  Slice(name, config, &reading->spec, &source);
  spec_.keys.push_back(std::move(reading->spec));
  sources_.push_back(std::move(source));
  for (std::size_t i = 0; i < ends_.size(); ++i) CheckEpisode(i, sources_.size() - 1);
}

void Hdf5Dataset::Slice(const std::string& name, const KeyConfig& config, KeySpec* spec,
                        KeySource* source) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kConfig, fmt::format("dataset key '{}': the array '{}' has steps {}; {}",
                                                name, config.array, ToString(spec->shape), what));
  };
  if (name == kAction && (source->stored != StoredAs::kNumbers || spec->shape.size() != 1)) {
    refuse("the action is a list of numbers, [steps, action_dim]");
  }
  if (!config.begin && !config.end) return;
  const std::int64_t n = spec->NumElements();
  const std::int64_t begin = config.begin.value_or(0);
  const std::int64_t end = config.end.value_or(n);
  if (source->stored != StoredAs::kNumbers || begin < 0 || begin >= end || end > n) {
    refuse(fmt::format("elements {} to {} are no part of its numbers", begin, end));
  }
  spec->shape = {end - begin};
  source->offset = static_cast<std::size_t>(begin) * sizeof(float);
}

// The array must be in every episode as in the first one.
void Hdf5Dataset::CheckEpisode(std::size_t episode, std::size_t key) {
  KeySource& source = sources_[key];
  const Demonstration& demonstration = files_.demonstrations()[episode];
  const std::shared_ptr<const H5File> file = files_.Open(demonstration);
  const std::string path = demonstration.Path(source.array);
  const ArrayQuestion question = Ask(*file, path, source, spec_.keys[key].name);
  const ArrayHeader& header = question.header;
  if (header.shape[0] != demonstration.n_steps) {
    file->Fail(path, fmt::format("expected {} steps, as {} has, found {}", demonstration.n_steps,
                                 files_.action(), header.shape[0]));
  }
  std::string obstacle;
  const std::optional<ArrayReading> found = ReadAs(question, &obstacle);
  const bool is_same = found && found->stored == source.stored &&
                       found->spec.dtype == spec_.keys[key].dtype &&
                       found->spec.ByteSize() == source.step_bytes;
  if (!is_same) {
    file->Fail(path, fmt::format("expected {} per step as in the first episode, found {} {}",
                                 Describe(spec_.keys[key]), header.dtype, ToString(header.shape)));
  }
  if (source.stored == StoredAs::kNumbers) return;
  const auto step_bytes = static_cast<std::int64_t>(source.step_bytes);
  const std::int64_t per_block =
      header.chunk_bytes > 0.0 ? header.chunk_rows : kBlockBytes / step_bytes;
  const bool is_files = source.stored == StoredAs::kFiles;
  source.pictures.push_back(
      {.block_rows = is_files ? 1 : std::clamp<std::int64_t>(per_block, 1, header.shape[0]),
       .row_bytes = header.item_bytes *
                    static_cast<std::size_t>(header.shape.size() == 2 ? header.shape[1] : 1)});
}

// Throws if the numbers do not fit.
void Hdf5Dataset::HoldNumbers() {
  for (const KeySource& source : sources_) {
    if (source.stored != StoredAs::kNumbers) continue;
    held_bytes_ += static_cast<double>(ends_.back()) * static_cast<double>(source.step_bytes);
  }
  if (held_bytes_ > memory_limit_) {
    RefuseLimit(memory_limit_, fmt::format("the numbers take {:.0f} bytes", held_bytes_),
                held_bytes_);
  }
  if (held_bytes_ > MachineMemory()) {
    throw Error(ErrorCode::kData,
                fmt::format("the numbers need {:.0f} bytes; this machine has {:.0f} of memory",
                            held_bytes_, MachineMemory()));
  }
}

// Episode by episode, so that every file is opened once.
void Hdf5Dataset::LoadNumbers() {
  for (KeySource& source : sources_) {
    if (source.stored != StoredAs::kNumbers) continue;
    source.numbers = zarr::PageBuffer(static_cast<std::size_t>(ends_.back()) * source.step_bytes);
  }
  for (std::size_t episode = 0; episode < ends_.size(); ++episode) {
    const Demonstration& demonstration = files_.demonstrations()[episode];
    const std::shared_ptr<const H5File> file = files_.Open(demonstration);
    for (KeySource& source : sources_) {
      if (source.stored != StoredAs::kNumbers) continue;
      const auto begin = static_cast<std::size_t>(Begin(episode)) * source.step_bytes;
      const std::span<std::byte> out = source.numbers.bytes().subspan(
          begin, static_cast<std::size_t>(demonstration.n_steps) * source.step_bytes);
      const std::string path = demonstration.Path(source.array);
      file->ReadRows(path, 0, demonstration.n_steps, DType::kFloat32, out);
      RequireRepresented(*file, path, episode,
                         {reinterpret_cast<const float*>(out.data()), out.size() / sizeof(float)},
                         source.step_bytes / sizeof(float));
    }
  }
}

// Float64 may hold what float32 cannot. NaN and Inf of the file stay what they are: the harness
// reports them with key, episode and step.
void Hdf5Dataset::RequireRepresented(const H5File& file, const std::string& path,
                                     std::size_t episode, std::span<const float> loaded,
                                     std::size_t n_per_step) const {
  std::int64_t checked = -1;  // step
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i / n_per_step);
    if (std::isfinite(loaded[i]) || step == checked) continue;
    checked = step;
    std::vector<double> row(n_per_step);
    file.ReadRows(path, step, step + 1, DType::kFloat64, std::as_writable_bytes(std::span(row)));
    const auto lost = std::ranges::find_if(row, [](double value) {
      return std::isfinite(value) && !std::isfinite(static_cast<float>(value));
    });
    if (lost == row.end()) continue;
    throw Error(ErrorCode::kNumeric,
                fmt::format("{}: step {} of episode {} holds {}, which float32 cannot hold; write "
                            "it in another unit, or leave the step out",
                            file.Describe(path), step, episode, *lost));
  }
}

void Hdf5Dataset::PrepareCache() {
  double all = 0.0;      // bytes of all pictures
  double largest = 0.0;  // block
  for (const KeySource& source : sources_) {
    const auto step_bytes = static_cast<double>(source.step_bytes + kBlockOverhead);
    for (std::size_t i = 0; i < source.pictures.size(); ++i) {
      all += step_bytes * static_cast<double>(files_.demonstrations()[i].n_steps);
      largest = std::max(largest, step_bytes);
    }
  }
  if (all == 0.0) return;
  const double bytes = std::min(memory_limit_ - held_bytes_, all);
  if (bytes < largest) {
    RefuseLimit(memory_limit_,
                fmt::format("the numbers take {:.0f} bytes, and the largest picture {:.0f}",
                            held_bytes_, largest),
                held_bytes_ + largest);
  }
  if (bytes > MachineMemory()) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("dataset.params.memory_limit_mb is {:.6g}; this machine has {:.0f}, and "
                    "the pictures need more",
                    memory_limit_ / kBytesPerMb, MachineMemory() / kBytesPerMb));
  }
  // a block may take a quarter of the cache, but at least one picture
  for (KeySource& source : sources_) {
    const double fit = bytes / 4.0 / static_cast<double>(source.step_bytes + kBlockOverhead);
    for (Picture& picture : source.pictures) {
      picture.block_rows =
          std::clamp(static_cast<std::int64_t>(fit), std::int64_t{1}, picture.block_rows);
    }
  }
  cache_ = std::make_unique<zarr::ChunkCache>(static_cast<std::size_t>(bytes));
}

void Hdf5Dataset::Read(int key, std::int64_t begin, std::int64_t end,
                       std::span<std::byte> out) const {
  if (key < 0 || static_cast<std::size_t>(key) >= spec_.keys.size()) {
    throw Error(ErrorCode::kData,
                fmt::format("expected one of {} keys, found key {}", spec_.keys.size(), key));
  }
  const auto index = static_cast<std::size_t>(key);
  const KeySpec& spec = spec_.keys[index];
  if (begin < 0 || begin > end || end > ends_.back()) {
    throw Error(ErrorCode::kData, fmt::format("steps {} to {} of '{}' are out of range; it has {}",
                                              begin, end, spec.name, ends_.back()));
  }
  const std::size_t key_bytes = spec.ByteSize();
  const auto n_steps = static_cast<std::size_t>(end - begin);
  if (out.size() != n_steps * key_bytes) {
    throw Error(ErrorCode::kData, fmt::format("{} steps of '{}' need {} bytes; the buffer has {}",
                                              n_steps, spec.name, n_steps * key_bytes, out.size()));
  }
  if (n_steps == 0) return;
  const KeySource& source = sources_[index];
  if (source.stored != StoredAs::kNumbers) return ReadPictures(index, begin, end, out);
  const std::byte* from = source.numbers.bytes().data() + source.offset +
                          static_cast<std::size_t>(begin) * source.step_bytes;
  if (key_bytes == source.step_bytes) {
    std::memcpy(out.data(), from, out.size());
    return;
  }
  for (std::size_t i = 0; i < n_steps; ++i) {
    std::memcpy(out.data() + i * key_bytes, from + i * source.step_bytes, key_bytes);
  }
}

void Hdf5Dataset::ReadPictures(std::size_t key, std::int64_t begin, std::int64_t end,
                               std::span<std::byte> out) const {
  const KeySource& source = sources_[key];
  auto episode = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
  while (begin < end) {
    if (begin == ends_[episode]) ++episode;
    const std::int64_t first = Begin(episode);
    const std::int64_t block_rows = source.pictures[episode].block_rows;
    const std::int64_t block_begin = (begin - first) / block_rows * block_rows;
    const std::int64_t block_end = std::min(block_begin + block_rows, ends_[episode] - first);
    const std::int64_t n = std::min(end, first + block_end) - begin;
    const auto n_bytes = static_cast<std::size_t>(n) * source.step_bytes;
    const auto block = cache_->Get(
        {&source, first + block_begin},
        static_cast<std::size_t>(block_end - block_begin) * source.step_bytes,
        [&](std::span<std::byte> room) { ReadBlock(key, episode, block_begin, block_end, room); });
    std::memcpy(out.data(),
                block->bytes().data() +
                    static_cast<std::size_t>(begin - first - block_begin) * source.step_bytes,
                n_bytes);
    out = out.subspan(n_bytes);
    begin += n;
  }
}

void Hdf5Dataset::ReadBlock(std::size_t key, std::size_t episode, std::int64_t begin,
                            std::int64_t end, std::span<std::byte> out) const {
  const KeySource& source = sources_[key];
  const KeySpec& spec = spec_.keys[key];
  const Demonstration& demonstration = files_.demonstrations()[episode];
  const std::shared_ptr<const H5File> file = files_.Open(demonstration);
  const std::string path = demonstration.Path(source.array);
  if (source.stored == StoredAs::kPixels) {
    return file->ReadRows(path, begin, end, spec.dtype, out);
  }
  if (source.stored == StoredAs::kPlanes) {
    std::vector<std::byte> planes(out.size());
    file->ReadRows(path, begin, end, DType::kUInt8, planes);
    for (std::size_t at = 0; at < out.size(); at += source.step_bytes) {
      InterleavePlanes(std::span(planes).subspan(at, source.step_bytes),
                       out.subspan(at, source.step_bytes));
    }
    return;
  }
  if (source.stored == StoredAs::kFloatColour) {
    std::vector<std::byte> floats(out.size() * sizeof(float));
    file->ReadRows(path, begin, end, DType::kFloat32, floats);
    const auto wrong =
        zarr::Convert(zarr::ElementType::kFloat32, zarr::Target::kImage, floats.data(),
                      static_cast<std::int64_t>(out.size()), out.data());
    if (!wrong) return;
    file->Fail(
        path,
        fmt::format("expected whole numbers of 0 to 255 as colours, found {} in step {}",
                    zarr::ElementText(zarr::ElementType::kFloat32,
                                      &floats[static_cast<std::size_t>(*wrong) * sizeof(float)]),
                    begin + *wrong / spec.NumElements()));
  }
  std::vector<std::byte> row(source.pictures[episode].row_bytes);
  file->ReadRows(path, begin, end, std::nullopt, row);
  try {
    rows_->Decode(
        row, {.width = static_cast<int>(spec.shape[2]), .height = static_cast<int>(spec.shape[1])},
        out);
  } catch (Error& error) {
    error.AddContext(fmt::format("in step {} of {}", begin, file->Describe(path)));
    throw;
  }
}

}  // namespace dp_bench::hdf5
