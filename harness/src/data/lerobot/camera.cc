#include "data/lerobot/camera.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "core/errors.h"
#include "data/lerobot/parquet_file.h"
#include "data/lerobot/stream_pool.h"
#include "media/decoded_image.h"
#include "media/video_frames.h"

namespace dp_bench::lerobot {

namespace {

// Writes an image in the format of its key.
class ImageWriter {
 public:
  ImageWriter(const Feature& feature, std::optional<DepthScale> depth)
      : n_pixels_(static_cast<std::size_t>(feature.width) *
                  static_cast<std::size_t>(feature.height)),
        is_grey_(feature.n_channels == 1),
        depth_(std::move(depth)) {}

  void Write(media::DecodedImage& image, std::span<std::byte> out) const {
    if (!depth_) {
      DPB_ASSERT(out.size() == 3 * n_pixels_);
      if (is_grey_ && image.grey_bits() > 8) {
        throw DataError(
            "expected a grey image of 8 bits, found {}; depth needs \"type\": \"depth\" in the key",
            image.grey_bits());
      }
      return image.ToRgb({reinterpret_cast<std::uint8_t*>(out.data()), out.size()});
    }
    DPB_ASSERT(out.size() == sizeof(std::uint16_t) * n_pixels_);
    std::vector<float> values(n_pixels_);
    image.ToGrey(values);
    depth_->ToMillimetres(image.grey_bits(), values,
                          {reinterpret_cast<std::uint16_t*>(out.data()), n_pixels_});
  }

 private:
  std::size_t n_pixels_;
  bool is_grey_;
  std::optional<DepthScale> depth_;
};

// Adds the frame to an error that passes through.
template <class Call>
void InFrame(const std::string& camera, const FrameId& frame, const Call& call) {
  try {
    call();
  } catch (Error& fault) {
    fault.AddContext(
        fmt::format("in episode {}, frame {} of '{}'", frame.episode, frame.frame, camera));
    throw;
  }
}

class VideoCamera final : public RecordedCamera {
 public:
  VideoCamera(const Metadata& metadata, const Feature& feature, std::optional<DepthScale> depth,
              const RowTimes& times, double tolerance, std::size_t max_idle)
      : metadata_(metadata),
        feature_(feature),
        places_(metadata.videos.at(feature.name)),
        writer_(feature, std::move(depth)),
        times_(times),
        tolerance_(tolerance),
        pool_(max_idle) {
    for (const VideoPlace& place : places_) {
      file_ids_.emplace(place.file, static_cast<std::int64_t>(file_ids_.size()));
    }
  }

  void Decode(const FrameId& frame, std::span<std::byte> out, const Pass& pass) override {
    const VideoPlace& place = places_.at(static_cast<std::size_t>(frame.episode));
    const double time = place.from_timestamp + times_.Of(frame);
    const auto position = static_cast<std::int64_t>(std::llround(time * metadata_.fps));
    const auto pass_image = [&](double at, double reach, media::DecodedImage& image) {
      FrameId other = frame;
      other.frame = std::llround((at - place.from_timestamp) * metadata_.fps);
      other.step += other.frame - frame.frame;
      if (other.frame < 0 || other.frame >= frame.frame) return;  // of another episode
      const double distance = std::abs(at - place.from_timestamp - times_.Of(other));
      if (distance >= reach || distance > tolerance_) return;
      pass(other.frame, [&](std::span<std::byte> room) { writer_.Write(image, room); });
    };
    InFrame(feature_.name, frame, [&] {
      pool_.With(
          file_ids_.at(place.file), position,
          [&] {
            return std::make_unique<Stream>(metadata_.VideoFile(feature_.name, place.file),
                                            feature_);
          },
          [&](Stream& stream) {
            stream.next = position + 1;
            writer_.Write(stream.frames.At(time, tolerance_, pass_image), out);
          });
    });
  }

 private:
  struct Stream {
    Stream(const std::filesystem::path& file, const Feature& feature)
        : frames(file, feature.width, feature.height) {}
    std::int64_t position() const { return next; }

    media::VideoFrames frames;
    std::int64_t next = 0;
  };

  const Metadata& metadata_;
  Feature feature_;
  const std::vector<VideoPlace>& places_;  // by episode
  ImageWriter writer_;
  const RowTimes& times_;
  double tolerance_;
  std::map<FileNumber, std::int64_t> file_ids_;
  StreamPool<Stream> pool_;
};

class ParquetCamera final : public RecordedCamera {
 public:
  ParquetCamera(const ImageRows& rows, const Feature& feature, std::optional<DepthScale> depth,
                std::size_t max_idle, std::int64_t max_bytes)
      : rows_(rows),
        feature_(feature),
        writer_(feature, std::move(depth)),
        max_bytes_(max_bytes),
        pool_(max_idle) {}

  void Decode(const FrameId& frame, std::span<std::byte> out, const Pass& /*pass*/) override {
    const ImageRows::Place& place = rows_.places.at(static_cast<std::size_t>(frame.step));
    InFrame(feature_.name, frame, [&] {
      pool_.With(
          place.file, place.row,
          [&] {
            return std::make_unique<Stream>(rows_.files[static_cast<std::size_t>(place.file)],
                                            feature_.name, max_bytes_);
          },
          [&](Stream& stream) {
            const std::span<const std::byte> file = stream.images.Read(place.row);
            writer_.Write(stream.decoder.Decode(file, feature_.width, feature_.height), out);
          });
    });
  }

 private:
  struct Stream {
    Stream(const std::filesystem::path& file, const std::string& column, std::int64_t max_bytes)
        : images(file, column, max_bytes) {}
    std::int64_t position() const { return images.next_row(); }

    ParquetImages images;
    media::ImageDecoder decoder;
  };

  const ImageRows& rows_;
  Feature feature_;
  ImageWriter writer_;
  std::int64_t max_bytes_;
  StreamPool<Stream> pool_;
};

constexpr int kCodeBits = 12;
constexpr int kNumCodes = 1 << kCodeBits;
constexpr int kFloatBits = 32;
constexpr float kMillimetresPerMetre = 1000.0F;

// NaN is not above 0.
std::uint16_t ToUint16(float millimetres) {
  constexpr float kMax = std::numeric_limits<std::uint16_t>::max();
  if (!(millimetres > 0.0F)) return 0;
  return static_cast<std::uint16_t>(std::min(std::nearbyint(millimetres), kMax));
}

}  // namespace

std::unique_ptr<RecordedCamera> MakeVideoCamera(const Metadata& metadata, const Feature& feature,
                                                std::optional<DepthScale> depth,
                                                const RowTimes& times, double tolerance,
                                                std::size_t max_idle) {
  return std::make_unique<VideoCamera>(metadata, feature, std::move(depth), times, tolerance,
                                       max_idle);
}

std::unique_ptr<RecordedCamera> MakeParquetCamera(const ImageRows& rows, const Feature& feature,
                                                  std::optional<DepthScale> depth,
                                                  std::size_t max_idle, std::int64_t max_bytes) {
  return std::make_unique<ParquetCamera>(rows, feature, std::move(depth), max_idle, max_bytes);
}

std::size_t StreamBytes(const Feature& feature) {
  if (feature.kind == Feature::Kind::kVideo) {
    return media::VideoFrames::EstimateMemory(feature.width, feature.height);
  }
  constexpr std::size_t kPages = std::size_t{4} << 20;  // of a Parquet file
  constexpr std::size_t kBytesPerPixel = 4;
  return kPages + kBytesPerPixel * static_cast<std::size_t>(feature.width) *
                      static_cast<std::size_t>(feature.height);
}

DepthScale DepthScale::OfCodes(const DepthCode& code) {
  DepthScale depth;
  depth.kind_ = Kind::kCodes;
  const auto level = [&code](double metres) {
    return code.is_logarithmic ? std::log(metres + code.shift) : metres;
  };
  // float32 after each operation, as in LeRobot
  const auto offset = static_cast<float>(level(code.min));
  const auto step = static_cast<float>((level(code.max) - level(code.min)) / (kNumCodes - 1));
  for (int i = 0; i < kNumCodes; ++i) {
    float metres = static_cast<float>(i) * step + offset;
    if (code.is_logarithmic) metres = std::exp(metres) - static_cast<float>(code.shift);
    metres = std::clamp(metres, static_cast<float>(code.min), static_cast<float>(code.max));
    depth.of_code_.push_back(ToUint16(metres * kMillimetresPerMetre));
  }
  return depth;
}

DepthScale DepthScale::OfUnit(std::optional<double> unit) {
  DepthScale depth;
  if (unit) depth.factor_ = *unit * kMillimetresPerMetre;
  return depth;
}

DepthScale DepthScale::OfLevels(double mm_per_level) {
  DepthScale depth;
  depth.kind_ = Kind::kLevels;
  depth.factor_ = mm_per_level;
  return depth;
}

void DepthScale::ToMillimetres(int bits, std::span<const float> values,
                               std::span<std::uint16_t> out) const {
  const auto require = [bits](bool holds, const char* expected) {
    if (holds) return;
    throw DataError("expected a depth image of {}, found {} bits", expected, bits);
  };
  if (kind_ == Kind::kCodes) {
    require(bits == kCodeBits, "12 bits");
    std::ranges::transform(values, out.begin(), [this](float code) {
      return of_code_[std::min(static_cast<std::size_t>(code), of_code_.size() - 1)];
    });
    return;
  }
  if (kind_ == Kind::kLevels) {
    require(bits == 8, "8 bits");
  } else {
    require(bits > 8, "16 or 32 bits (the key needs mm_per_level if it has 8)");
  }
  const double implied = bits == kFloatBits ? kMillimetresPerMetre : 1.0;
  const auto factor = static_cast<float>(factor_.value_or(implied));
  std::ranges::transform(values, out.begin(),
                         [factor](float value) { return ToUint16(value * factor); });
}

}  // namespace dp_bench::lerobot
