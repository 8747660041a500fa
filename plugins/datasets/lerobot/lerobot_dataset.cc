#include "lerobot_dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "data/lerobot/key_sources.h"
#include "dp_bench/error.h"
#include "key_mapping.h"

namespace dp_bench::lerobot {
namespace {

constexpr double kBytesPerMb = 1 << 20;

// A file of numbers is decoded in what the limit leaves, but at least in this much.
constexpr double kMinScratchBytes = 16 << 20;

// Open files of one camera may take at most this part of the limit, and there are at most this
// many.
constexpr double kStreamShare = 0.25;
constexpr double kMaxStreams = 64.0;

// The cache rounds pictures up to whole cache lines.
constexpr std::size_t kPictureOverhead = 64;

double MachineMemory() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

[[noreturn]] void RefuseLimit(double limit, std::string_view what, double needed) {
  throw Error(
      ErrorCode::kConfig,
      fmt::format("dataset.params.memory_limit_mb is {:.6g}, but {}; expected {:.0f} or more",
                  limit / kBytesPerMb, what, std::ceil(needed / kBytesPerMb)));
}

}  // namespace

std::unique_ptr<Dataset> LeRobotDataset::Create(const Config& params) {
  return std::make_unique<LeRobotDataset>(LeRobotConfig::FromConfig(params));
}

LeRobotDataset::LeRobotDataset(const LeRobotConfig& config)
    : memory_limit_(config.memory_limit_mb * kBytesPerMb),
      tolerance_(config.tolerance_s),
      metadata_(ReadMetadata(config.path,
                             static_cast<std::int64_t>(std::max(memory_limit_, kMinScratchBytes)))),
      selection_(metadata_, config.tasks) {
  spec_.fps = metadata_.fps;
  std::set<std::string> features;
  for (const auto& [name, key] : ChooseKeys(metadata_, config.keys)) {
    const Feature& feature = FindFeature(metadata_, name, key.feature);
    AddKey(name, feature, key);
    features.insert(feature.name);
  }
  const std::vector<std::string> names(features.begin(), features.end());
  WarnOfOmissions(metadata_, names);
  ranges_ = ReadRanges(metadata_, names);
  HoldNumbers();
  const bool has_pictures = std::ranges::any_of(requests_, [](const CameraRequest& request) {
    return request.feature->kind == Feature::Kind::kImage;
  });
  times_.fps = metadata_.fps;
  RowReader(metadata_, selection_, config.row_tolerance_s.value_or(tolerance_), ScratchBytes(),
            &times_)
      .Read(&numbers_, has_pictures, &picture_rows_);
  OpenCameras();
}

void LeRobotDataset::AddKey(const std::string& name, const Feature& feature,
                            const KeyConfig& config) {
  KeySource source{.feature = &feature};
  if (feature.is_camera()) {
    CameraKey key = MapCamera(name, feature, config);
    requests_.push_back(
        {.key = spec_.keys.size(), .feature = &feature, .depth = std::move(key.depth)});
    spec_.keys.push_back(std::move(key.spec));
  } else {
    NumbersKey key = MapNumbers(name, feature, config);
    Numbers& numbers = numbers_[feature.name];
    numbers.n = static_cast<std::size_t>(NumElements(feature.shape));
    source.numbers = &numbers;
    source.channels = std::move(key.channels);
    spec_.keys.push_back(std::move(key.spec));
  }
  sources_.push_back(std::move(source));
}

std::string LeRobotDataset::Task(std::int64_t episode) const {
  const std::int64_t index = selection_.episodes().at(static_cast<std::size_t>(episode));
  const std::vector<std::string>& tasks = metadata_.episodes[static_cast<std::size_t>(index)].tasks;
  return tasks.empty() ? "" : tasks[0];
}

std::string LeRobotDataset::FeatureName(int key) const {
  return sources_.at(static_cast<std::size_t>(key)).feature->name;
}

std::vector<std::string> LeRobotDataset::ChannelNames(int key) const {
  const KeySource& source = sources_.at(static_cast<std::size_t>(key));
  const std::vector<std::string>& all = source.feature->channels;
  if (source.channels.empty() || all.empty()) return all;
  std::vector<std::string> names;
  for (const std::size_t channel : source.channels) names.push_back(all[channel]);
  return names;
}

std::optional<StatedRange> LeRobotDataset::RecordedRange(int key) const {
  const KeySource& source = sources_.at(static_cast<std::size_t>(key));
  const auto found = ranges_.find(source.feature->name);
  if (found == ranges_.end()) return std::nullopt;
  const StatedRange& all = found->second;
  const bool has_each = source.numbers != nullptr && all.min.size() == source.numbers->n;
  if (!has_each || selection_.episodes().size() != metadata_.episodes.size()) return std::nullopt;
  if (source.channels.empty()) return all;
  StatedRange range;
  for (const std::size_t channel : source.channels) {
    range.min.push_back(all.min[channel]);
    range.max.push_back(all.max[channel]);
  }
  return range;
}

// Throws if the numbers do not fit.
void LeRobotDataset::HoldNumbers() {
  for (const auto& [name, numbers] : numbers_) {
    held_bytes_ +=
        static_cast<double>(selection_.n_steps()) * static_cast<double>(numbers.n * sizeof(float));
  }
  if (held_bytes_ > memory_limit_) {
    RefuseLimit(memory_limit_, fmt::format("the numbers take {:.0f} bytes", held_bytes_),
                held_bytes_);
  }
  if (held_bytes_ > MachineMemory()) {
    throw Error(ErrorCode::kData,
                fmt::format("the numbers of {} need {:.0f} bytes; this machine "
                            "has {:.0f} of memory",
                            metadata_.root.string(), held_bytes_, MachineMemory()));
  }
}

// Shares out the memory that the numbers leave. Opens no file.
void LeRobotDataset::OpenCameras() {
  if (requests_.empty()) return;
  const double room = memory_limit_ - held_bytes_;
  double stream_bytes = 0.0;   // one open file per camera
  double picture_bytes = 0.0;  // of all pictures
  double largest = 0.0;        // picture
  for (const CameraRequest& request : requests_) {
    const double bytes = static_cast<double>(spec_.keys[request.key].ByteSize() + kPictureOverhead);
    stream_bytes += static_cast<double>(StreamBytes(*request.feature));
    picture_bytes += static_cast<double>(selection_.n_steps()) * bytes;
    largest = std::max(largest, bytes);
  }
  const double n_threads = std::max(1U, std::thread::hardware_concurrency());
  const double max_idle = std::floor(
      std::clamp(room * kStreamShare / stream_bytes, 1.0, std::min(kMaxStreams, 2.0 * n_threads)));
  const double cache_bytes = std::min(room - max_idle * stream_bytes, picture_bytes);
  if (cache_bytes < largest) {
    RefuseLimit(
        memory_limit_,
        fmt::format("the numbers take {:.0f} bytes, open files with pictures {:.0f}, and the "
                    "largest picture {:.0f}",
                    held_bytes_, stream_bytes, largest),
        held_bytes_ + stream_bytes + largest);
  }
  if (cache_bytes > MachineMemory()) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("dataset.params.memory_limit_mb is {:.6g}; this machine has {:.0f}, and "
                    "the pictures need more",
                    memory_limit_ / kBytesPerMb, MachineMemory() / kBytesPerMb));
  }
  cache_ = std::make_unique<zarr::ChunkCache>(static_cast<std::size_t>(cache_bytes));
  for (const CameraRequest& request : requests_) {
    const Feature& feature = *request.feature;
    const auto n_idle = static_cast<std::size_t>(max_idle);
    cameras_.push_back(
        feature.kind == Feature::Kind::kVideo
            ? MakeVideoCamera(metadata_, feature, request.depth, times_, tolerance_, n_idle)
            : MakeParquetCamera(picture_rows_, feature, request.depth, n_idle, ScratchBytes()));
    sources_[request.key].camera = cameras_.back().get();
  }
}

std::int64_t LeRobotDataset::ScratchBytes() const {
  return static_cast<std::int64_t>(std::max(kMinScratchBytes, memory_limit_ - held_bytes_));
}

void LeRobotDataset::Read(int key, std::int64_t begin, std::int64_t end,
                          std::span<std::byte> out) const {
  if (key < 0 || static_cast<std::size_t>(key) >= spec_.keys.size()) {
    throw Error(ErrorCode::kData,
                fmt::format("expected one of {} keys, found key {}", spec_.keys.size(), key));
  }
  const KeySpec& spec = spec_.keys[static_cast<std::size_t>(key)];
  if (begin < 0 || begin > end || end > selection_.n_steps()) {
    throw Error(ErrorCode::kData, fmt::format("steps {} to {} of '{}' are out of range; it has {}",
                                              begin, end, spec.name, selection_.n_steps()));
  }
  const std::size_t n_bytes = static_cast<std::size_t>(end - begin) * spec.ByteSize();
  if (out.size() != n_bytes) {
    throw Error(ErrorCode::kData, fmt::format("{} steps of '{}' need {} bytes; the buffer has {}",
                                              end - begin, spec.name, n_bytes, out.size()));
  }
  const KeySource& source = sources_[static_cast<std::size_t>(key)];
  if (source.camera != nullptr) {
    ReadPictures(*source.camera, spec.ByteSize(), begin, end, out);
  } else {
    ReadNumbers(source, begin, end, out);
  }
}

void LeRobotDataset::ReadNumbers(const KeySource& source, std::int64_t begin, std::int64_t end,
                                 std::span<std::byte> out) const {
  const std::size_t step_bytes = source.numbers->n * sizeof(float);
  const std::byte* from =
      source.numbers->buffer.bytes().data() + static_cast<std::size_t>(begin) * step_bytes;
  if (out.empty()) return;
  if (source.channels.empty()) {
    std::memcpy(out.data(), from, out.size());
    return;
  }
  std::byte* to = out.data();
  for (std::int64_t step = begin; step < end; ++step, from += step_bytes) {
    for (const std::size_t channel : source.channels) {
      std::memcpy(to, from + channel * sizeof(float), sizeof(float));
      to += sizeof(float);
    }
  }
}

void LeRobotDataset::ReadPictures(RecordedCamera& camera, std::size_t picture_bytes,
                                  std::int64_t begin, std::int64_t end,
                                  std::span<std::byte> out) const {
  for (std::int64_t step = begin; step < end; ++step) {
    const FrameId frame = selection_.FrameAt(step);
    const std::size_t stored_bytes = camera.StoredBytes(picture_bytes);
    const auto keep = [&](std::int64_t other, const zarr::ChunkCache::Decode& store) {
      cache_->Offer({&camera, step - frame.frame + other}, stored_bytes, store);
    };
    const auto stored = cache_->Get({&camera, step}, stored_bytes, [&](std::span<std::byte> room) {
      camera.Store(frame, room, keep);
    });
    camera.Show(frame, stored->bytes(),
                out.subspan(static_cast<std::size_t>(step - begin) * picture_bytes, picture_bytes));
  }
}

}  // namespace dp_bench::lerobot
