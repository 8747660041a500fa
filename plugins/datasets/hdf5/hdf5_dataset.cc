#include "hdf5_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "data/hdf5/chunks.h"
#include "data/reader/whole_numbers.h"
#include "data/zarr/element_type.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"

namespace dp_bench::hdf5 {
namespace {

using reader::kAction;

// Images that are not stored in chunks are read in blocks of about this size.
constexpr std::int64_t kBlockBytes = 256 << 10;

// The cache rounds blocks up to whole cache lines.
constexpr std::size_t kBlockOverhead = 64;

// The array that every episode has; none if it is to be found.
std::optional<std::string> ActionOf(const Hdf5Config& config) {
  const auto action = config.keys.find(kAction);
  if (action == config.keys.end() || action->second.source.empty()) return std::nullopt;
  return action->second.source;
}

// Files differ in the bytes of a row; numbers may differ in their width.
bool IsAlike(const ArrayReading& first, ArrayHeader::Kind kind, const ArrayReading& other,
             ArrayHeader::Kind other_kind) {
  return first.stored == other.stored && first.spec.dtype == other.spec.dtype &&
         first.spec.shape == other.spec.shape &&
         (kind == other_kind || first.stored == StoredAs::kFiles);
}

// None if the file says nothing, or something else than a list of texts.
std::vector<std::string> ReadChannels(const H5File& file, const std::string& path) {
  const std::string text = file.TextAttribute(path, kChannelsAttribute).value_or("");
  const auto names = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!names.is_array() || !std::ranges::all_of(names, &nlohmann::json::is_string)) return {};
  return names.get<std::vector<std::string>>();
}

// Float64 may hold what float32 cannot. NaN and Inf of the file stay what they are: the harness
// reports them with key, episode and step.
void RequireRepresented(const H5File& file, const std::string& path, std::size_t episode,
                        std::int64_t step, std::size_t n_per_step) {
  std::vector<double> row(n_per_step);
  file.ReadRows(path, step, step + 1, DType::kFloat64, std::as_writable_bytes(std::span(row)));
  const auto lost = std::ranges::find_if(row, [](double value) {
    return std::isfinite(value) && !std::isfinite(static_cast<float>(value));
  });
  if (lost == row.end()) return;
  throw Error(ErrorCode::kNumeric,
              fmt::format("{}: step {} of episode {} holds {}, which float32 cannot hold; write it "
                          "in another unit, or leave the step out",
                          file.Describe(path), step, episode, *lost));
}

// Libhdf5 reads a uint64 from 2^63 on as 2^63 - 1.
void RequireExact(const H5File& file, const std::string& path, std::size_t episode,
                  std::int64_t step, std::size_t n_per_step) {
  std::vector<std::int64_t> row(n_per_step);
  file.ReadRows(path, step, step + 1, DType::kInt64, std::as_writable_bytes(std::span(row)));
  const auto inexact = reader::FindInexact(std::span<const std::int64_t>(row));
  if (!inexact) return;
  reader::RefuseInexact(
      fmt::format("{}, step {} of episode {}", file.Describe(path), step, episode),
      std::to_string(row[static_cast<std::size_t>(*inexact)]));
}

// Reads a step again if float32 may have rounded one of its numbers, or cannot hold it.
void CheckNumbers(const H5File& file, const std::string& path, std::size_t episode, bool is_float,
                  std::span<const float> loaded, std::size_t n_per_step) {
  const auto is_suspect = [is_float](float value) {
    return is_float ? !std::isfinite(value) : std::abs(value) >= float{reader::kAllExact};
  };
  for (std::int64_t step = 0; !loaded.empty(); ++step, loaded = loaded.subspan(n_per_step)) {
    if (std::ranges::none_of(loaded.first(n_per_step), is_suspect)) continue;
    const auto check = is_float ? &RequireRepresented : &RequireExact;
    check(file, path, episode, step, n_per_step);
  }
}

}  // namespace

Hdf5Config Hdf5Config::FromConfig(const Config& params) {
  Hdf5Config config{
      .path = params.Require<std::string>(
          "path",
          "an HDF5 file, or a folder with *.hdf5 or *.h5, relative to the current directory"),
      .filter_key = params.GetOptional<std::string>(
          "filter_key",
          "reads only the demonstrations that this list in mask/ names; none for all")};
  const ConfigKeys keys(params);
  keys("fps", &config.fps, reader::kMinFps, reader::kMaxFps,
       "steps per second; none for control_freq of robomimic's env_args, or the attribute fps");
  keys("memory_limit_mb", &config.memory_limit_mb, 0.01, reader::kMaxMemoryMb,
       "MiB for numbers, which are read at once, and images, which are kept as far as they fit");
  config.keys = reader::ReadKeyConfigs(
      params,
      "where each key comes from; if left out, every array of observations with numbers or "
      "images is a key",
      [](const Config& key) {
        return reader::ReadKeyConfig(
            key, "array",
            "the array, relative to the group of an episode, such as obs/robot0_eef_pos; none for "
            "that of the key without a map");
      },
      R"({"array": "actions"})");
  return config;
}

std::unique_ptr<Dataset> Hdf5Dataset::Create(const Config& params) {
  const Hdf5Config config = Hdf5Config::FromConfig(params);
  TryInChild(config.path, [&config] { const Hdf5Dataset trial(config); });
  return std::make_unique<Hdf5Dataset>(config);
}

Hdf5Dataset::Hdf5Dataset(const Hdf5Config& config)
    : memory_(config.memory_limit_mb),
      files_({.path = config.path, .action = ActionOf(config), .filter_key = config.filter_key}) {
  spec_.fps = config.fps.value_or(files_.fps().value_or(0.0));
  std::int64_t n_steps = 0;
  for (const Demonstration& demonstration : files_.demonstrations()) {
    episode_ends_.push_back(n_steps += demonstration.n_steps);
  }
  ends_ = episode_ends_;
  AddKeys(config);
  LoadNumbers();
  PrepareCache();
}

void Hdf5Dataset::AddKeys(const Hdf5Config& config) {
  reader::KeyConfigs all;
  all[kAction] = {.source = files_.action()};
  for (const DemonstrationFiles::NamedArray& one : files_.Observations()) {
    const auto [other, is_new] = all.emplace(one.key, KeyConfig{.source = one.array});
    if (is_new || !config.keys.empty()) continue;
    throw Error(ErrorCode::kData,
                fmt::format("{}: the arrays '{}' and '{}' would have the same key '{}'; name them "
                            "in dataset.params.keys",
                            config.path.string(), other->second.source, one.array, one.key));
  }
  const auto keys = reader::CompleteKeys(
      config.keys, [&all]() -> const reader::KeyConfigs& { return all; }, config.path.string(),
      "array");
  for (const auto& [name, key] : keys) {
    AddKey(name, key, !config.keys.empty() || name == kAction);
  }
  if (config.keys.empty()) files_.LeaveOutLater();
  files_.WarnOfLeftOut();
}

// The question to ReadAs about an array of one episode.
ArrayQuestion Hdf5Dataset::Ask(const H5File& file, const std::string& path, const KeySource& source,
                               const std::string& name) const {
  ArrayQuestion question{
      .key = name, .header = file.Header(path), .type = source.type, .image = {}};
  const ArrayHeader& header = question.header;
  if (header.chunk_bytes > memory_.limit()) {
    memory_.Refuse(fmt::format("{} has chunks of {:.0f} bytes, which are decoded as a whole", path,
                               header.chunk_bytes),
                   header.chunk_bytes);
  }
  if (!source.type && MayBeFloatColour(header)) {
    question.has_colours = BeginsWithColours(file, path, header);
  }
  const bool is_text = header.kind == ArrayHeader::Kind::kText && header.shape.size() == 1;
  const bool is_bytes = header.Is(ArrayHeader::Kind::kUnsigned, 1) && header.shape.size() == 2;
  if ((!is_text && !is_bytes) || header.shape[0] == 0) return question;
  if (source.stored == StoredAs::kFiles) {  // known from the first episode
    question.image = source.image;
    return question;
  }
  const auto n_bytes = header.item_bytes * static_cast<std::size_t>(is_text ? 1 : header.shape[1]);
  if (static_cast<double>(n_bytes) > memory_.limit()) {
    memory_.Refuse(fmt::format("{} has rows of {} bytes", path, n_bytes),
                   static_cast<double>(n_bytes));
  }
  std::vector<std::byte> row(n_bytes);
  file.ReadRows(path, 0, 1, std::nullopt, row);
  if (!IsImageFile(row)) return question;
  try {
    question.image = SizeOfImage(row);
  } catch (Error& error) {
    error.AddContext(fmt::format("in the first row of {}", path));
    throw;
  }
  return question;
}

// Whether the first rows, those of a chunk, are whole numbers of 0 to 255.
bool Hdf5Dataset::BeginsWithColours(const H5File& file, const std::string& path,
                                    const ArrayHeader& header) const {
  const std::int64_t n_per_row = NumElements({header.shape.begin() + 1, header.shape.end()});
  const std::int64_t n_together =
      header.chunk_bytes > 0.0 ? header.chunk_rows : 1 + kBlockBytes / n_per_row;
  const std::int64_t n_rows = std::min(header.shape[0], n_together);
  const std::int64_t n = n_rows * n_per_row;
  if (static_cast<double>(n) * sizeof(float) > memory_.limit()) return true;  // an error later
  std::vector<std::byte> floats(static_cast<std::size_t>(n) * sizeof(float));
  std::vector<std::byte> colours(static_cast<std::size_t>(n));
  file.ReadRows(path, 0, n_rows, DType::kFloat32, floats);
  return !zarr::Convert(zarr::ElementType::kFloat32, DType::kUInt8, floats.data(), n,
                        colours.data());
}

// Leaves out arrays that no key names and that are neither numbers nor images.
void Hdf5Dataset::AddKey(const std::string& name, const KeyConfig& config, bool is_asked_for) {
  const Demonstration& first = files_.demonstrations()[0];
  const std::shared_ptr<const H5File> file = files_.Open(first);
  const std::string path = first.Path(config.source);
  KeySource source{
      .array = config.source, .channels = {}, .type = config.type, .numbers = {}, .images = {}};
  if (!is_asked_for && file->Find(path) != H5File::ObjectKind::kArray) {
    return files_.LeaveOut(config.source, "a link into another file, or to nothing");
  }
  if (const std::string why = is_asked_for ? "" : file->WrongRank(path); !why.empty()) {
    return files_.LeaveOut(config.source, why);
  }
  if (!source.type) {
    source.type = reader::ParseKeyType(file->TextAttribute(path, kTypeAttribute).value_or(""));
  }
  std::string obstacle;
  const ArrayQuestion question = Ask(*file, path, source, name);
  std::optional<ArrayReading> reading = ReadAs(question, &obstacle);
  if (!reading && !is_asked_for) return files_.LeaveOut(config.source, obstacle);
  if (!reading) {
    file->Fail(path, "expected an array for the key '{}', found {} {}: {}", name,
               question.header.dtype, ToString(question.header.shape), obstacle);
  }
  source.stored = reading->stored;
  source.type = reading->spec.type;  // of all episodes
  source.first = *reading;
  source.header = question.header;
  if (source.stored == StoredAs::kNumbers) source.channels = ReadChannels(*file, path);
  source.image = question.image;
  held_.push_back(Choose(name, config, source.stored, &reading->spec));
  spec_.keys.push_back(std::move(reading->spec));
  sources_.push_back(std::move(source));
  for (std::size_t i = 0; i < ends_.size(); ++i) CheckEpisode(i, sources_.size() - 1);
}

std::vector<std::string> Hdf5Dataset::ChannelNames(int key) const {
  return PartOf(key, sources_.at(static_cast<std::size_t>(key)).channels);
}

// What the key takes of a step.
reader::KeyedDataset::Held Hdf5Dataset::Choose(const std::string& name, const KeyConfig& config,
                                               StoredAs stored, KeySpec* spec) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kConfig, fmt::format("dataset key '{}': the array '{}' has steps {}; {}",
                                                name, config.source, ToString(spec->shape), what));
  };
  const bool is_numbers = stored == StoredAs::kNumbers;
  if (name == kAction && (!is_numbers || spec->shape.size() != 1)) {
    refuse("the action is a list of numbers, [steps, action_dim]");
  }
  Held held{.step_bytes = spec->ByteSize()};
  if (!config.is_sliced()) return held;
  if (!is_numbers) refuse("begin and end are for numbers");
  const reader::Slice slice = reader::SliceOf(config, spec->NumElements(), refuse);
  spec->shape = {slice.end - slice.begin};
  held.offset = static_cast<std::size_t>(slice.begin) * sizeof(float);
  return held;
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
    file->Fail(path, "expected {} steps, as {} has, found {}", demonstration.n_steps,
               files_.action(), header.shape[0]);
  }
  std::string obstacle;
  const std::optional<ArrayReading> found = ReadAs(question, &obstacle);
  if (!found || !IsAlike(source.first, source.header.kind, *found, header.kind)) {
    file->Fail(path,
               "expected {} {} for the key '{}' as in the first episode, found {} {}; leave the "
               "episode out, or name the keys without this one in dataset.params.keys",
               source.header.dtype, ToString(source.header.shape), spec_.keys[key].name,
               header.dtype, ToString(header.shape));
  }
  if (source.stored == StoredAs::kNumbers) return;
  const auto step_bytes = static_cast<std::int64_t>(held_[key].step_bytes);
  const std::int64_t per_block =
      header.chunk_bytes > 0.0 ? header.chunk_rows : kBlockBytes / step_bytes;
  const bool is_files = source.stored == StoredAs::kFiles;
  source.images.push_back(
      {.block_rows = is_files ? 1 : std::clamp<std::int64_t>(per_block, 1, header.shape[0]),
       .row_bytes = header.item_bytes *
                    static_cast<std::size_t>(header.shape.size() == 2 ? header.shape[1] : 1)});
}

// Episode by episode, so that every file is opened once.
void Hdf5Dataset::LoadNumbers() {
  std::vector<std::size_t> keys;
  double n_bytes = 0.0;
  for (std::size_t key = 0; key < sources_.size(); ++key) {
    if (sources_[key].stored != StoredAs::kNumbers) continue;
    keys.push_back(key);
    n_bytes += static_cast<double>(n_steps()) * static_cast<double>(held_[key].step_bytes);
  }
  memory_.Hold(n_bytes, "the numbers");
  for (const std::size_t key : keys) {
    reader::PageBuffer& numbers = sources_[key].numbers;
    numbers = reader::PageBuffer(static_cast<std::size_t>(n_steps()) * held_[key].step_bytes);
    held_[key].steps = &numbers;
  }
  for (std::size_t episode = 0; episode < ends_.size(); ++episode) {
    const Demonstration& demonstration = files_.demonstrations()[episode];
    const std::shared_ptr<const H5File> file = files_.Open(demonstration);
    for (const std::size_t key : keys) {
      const std::size_t step_bytes = held_[key].step_bytes;
      const std::span<std::byte> out = sources_[key].numbers.bytes().subspan(
          static_cast<std::size_t>(BeginOf(episode)) * step_bytes,
          static_cast<std::size_t>(demonstration.n_steps) * step_bytes);
      const std::string path = demonstration.Path(sources_[key].array);
      file->ReadRows(path, 0, demonstration.n_steps, DType::kFloat32, out);
      const std::span loaded(reinterpret_cast<const float*>(out.data()),
                             out.size() / sizeof(float));
      CheckNumbers(*file, path, episode, sources_[key].header.kind == ArrayHeader::Kind::kFloat,
                   loaded, step_bytes / sizeof(float));
    }
  }
}

void Hdf5Dataset::PrepareCache() {
  double all = 0.0;      // bytes of all images
  double largest = 0.0;  // image
  for (std::size_t key = 0; key < sources_.size(); ++key) {
    if (sources_[key].stored == StoredAs::kNumbers) continue;
    const auto step_bytes = static_cast<double>(held_[key].step_bytes + kBlockOverhead);
    all += step_bytes * static_cast<double>(n_steps());
    largest = std::max(largest, step_bytes);
  }
  if (all == 0.0) return;
  const double bytes = std::min(memory_.left(), all);
  if (bytes < largest) {
    memory_.Refuse(fmt::format("the numbers take {:.0f} bytes, and the largest image {:.0f}",
                               memory_.held(), largest),
                   memory_.held() + largest);
  }
  memory_.RequireMachineHas(bytes);
  // a block may take a quarter of the cache, but at least one image
  for (std::size_t key = 0; key < sources_.size(); ++key) {
    const double fit = bytes / 4.0 / static_cast<double>(held_[key].step_bytes + kBlockOverhead);
    for (Image& image : sources_[key].images) {
      image.block_rows =
          std::clamp(static_cast<std::int64_t>(fit), std::int64_t{1}, image.block_rows);
    }
  }
  cache_ = std::make_unique<reader::ChunkCache>(static_cast<std::size_t>(bytes));
}

void Hdf5Dataset::ReadImages(std::size_t key, std::int64_t begin, std::int64_t end,
                             std::span<std::byte> out) const {
  const KeySource& source = sources_[key];
  const std::size_t step_bytes = held_[key].step_bytes;
  auto episode = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
  while (begin < end) {
    if (begin == ends_[episode]) ++episode;
    const std::int64_t first = BeginOf(episode);
    const std::int64_t block_rows = source.images[episode].block_rows;
    const std::int64_t block_begin = (begin - first) / block_rows * block_rows;
    const std::int64_t block_end = std::min(block_begin + block_rows, ends_[episode] - first);
    const std::int64_t n = std::min(end, first + block_end) - begin;
    const auto n_bytes = static_cast<std::size_t>(n) * step_bytes;
    const auto block = cache_->Get(
        {&source, first + block_begin},
        static_cast<std::size_t>(block_end - block_begin) * step_bytes,
        [&](std::span<std::byte> room) { ReadBlock(key, episode, block_begin, block_end, room); });
    std::memcpy(
        out.data(),
        block->bytes().data() + static_cast<std::size_t>(begin - first - block_begin) * step_bytes,
        n_bytes);
    out = out.subspan(n_bytes);
    begin += n;
  }
}

void Hdf5Dataset::ReadBlock(std::size_t key, std::size_t episode, std::int64_t begin,
                            std::int64_t end, std::span<std::byte> out) const {
  const KeySource& source = sources_[key];
  const std::size_t step_bytes = held_[key].step_bytes;
  const KeySpec& spec = spec_.keys[key];
  const Demonstration& demonstration = files_.demonstrations()[episode];
  const std::shared_ptr<const H5File> file = files_.Open(demonstration);
  const std::string path = demonstration.Path(source.array);
  if (source.stored == StoredAs::kPixels) {
    return file->ReadRows(path, begin, end, spec.dtype, out);
  }
  if (source.stored == StoredAs::kPlanes) {
    file->ReadRows(path, begin, end, DType::kUInt8, out);
    return reader::InterleavePlanes(step_bytes, out);
  }
  if (source.stored == StoredAs::kFloatColour) {
    std::vector<std::byte> floats(out.size() * sizeof(float));
    file->ReadRows(path, begin, end, DType::kFloat32, floats);
    const auto wrong = zarr::Convert(zarr::ElementType::kFloat32, DType::kUInt8, floats.data(),
                                     static_cast<std::int64_t>(out.size()), out.data());
    if (!wrong) return;
    file->Fail(path, "expected whole numbers of 0 to 255 as colours, found {} in step {}; {}",
               zarr::ElementText(zarr::ElementType::kFloat32,
                                 &floats[static_cast<std::size_t>(*wrong) * sizeof(float)]),
               begin + *wrong / spec.NumElements(), AdviceForNumbers(spec.name));
  }
  std::vector<std::byte> row(source.images[episode].row_bytes);
  file->ReadRows(path, begin, end, std::nullopt, row);
  try {
    DecodeImageFile(row, source.image, out);
  } catch (Error& error) {
    error.AddContext(fmt::format("in step {} of {}", begin, file->Describe(path)));
    throw;
  }
}

}  // namespace dp_bench::hdf5
