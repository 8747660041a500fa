// The images of one camera of a LeRobot dataset, decoded one by one: from videos, or from PNG,
// JPEG and TIFF files inside Parquet files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/lerobot/metadata.h"

namespace dp_bench::lerobot {

/// From the numbers in a stored depth image to millimetres.
class DepthScale {
 public:
  /// A video of 12-bit codes, as LeRobot decodes them: metres = exp(code * s + o) - shift or
  /// code * s + o, clamped to min and max, then rounded to millimetres.
  static DepthScale OfCodes(const DepthCode& code);

  /// Images of whole numbers or of floating-point numbers in `unit` [m]. If the unit is unknown,
  /// whole numbers are millimetres and others metres, as in LeRobot.
  static DepthScale OfUnit(std::optional<double> unit);

  /// Images of 8 bits, where one level is this many millimetres.
  static DepthScale OfLevels(double mm_per_level);

  /// Converts the numbers of an image with `bits` per pixel. Values beyond 65535 mm become 65535,
  /// and negative numbers and NaN, which mean "no measurement", become 0. Throws Error{kData} if
  /// such images cannot have so many bits.
  void ToMillimetres(int bits, std::span<const float> values, std::span<std::uint16_t> out) const;

 private:
  enum class Kind { kCodes, kUnit, kLevels };

  Kind kind_ = Kind::kUnit;
  std::optional<double> factor_;        // of kUnit and kLevels [mm]
  std::vector<std::uint16_t> of_code_;  // [mm]
};

/// A frame of the dataset.
struct FrameId {
  std::int64_t step = 0;  // among the steps that are read
  std::int64_t episode = 0;
  std::int64_t frame = 0;  // of the episode
};

/// When the rows of the dataset were recorded, in seconds from the start of their episode.
struct RowTimes {
  double fps = 0.0;           // [Hz]
  std::vector<float> stated;  // by step; empty if all times are frame / fps

  double Of(const FrameId& frame) const {
    return stated.empty() ? static_cast<double>(frame.frame) / fps
                          : stated[static_cast<std::size_t>(frame.step)];
  }
};

/// May be used from several threads at once.
class RecordedCamera {
 public:
  RecordedCamera() = default;
  RecordedCamera(const RecordedCamera&) = delete;
  RecordedCamera& operator=(const RecordedCamera&) = delete;
  virtual ~RecordedCamera() = default;

  /// Gets an earlier frame of the same episode, which had to be decoded on the way to another, and
  /// what writes its image.
  using Pass = std::function<void(std::int64_t frame,
                                  const std::function<void(std::span<std::byte>)>& write)>;

  /// Writes the image of a frame: RGB8 [height, width, 3], or depth as uint16 [height, width] in
  /// millimetres. Throws Error{kData} or Error{kMedia} naming file, episode and frame.
  virtual void Decode(const FrameId& frame, std::span<std::byte> out, const Pass& pass) = 0;
};

/// A camera whose images are in video files. `depth` must be given for a depth key. An image is
/// the one nearest to the time of its row, as in LeRobot, and at most `tolerance` [s] away. At most
/// `max_idle` files stay open. `metadata` and `times` must outlive the camera.
std::unique_ptr<RecordedCamera> MakeVideoCamera(const Metadata& metadata, const Feature& feature,
                                                std::optional<DepthScale> depth,
                                                const RowTimes& times, double tolerance,
                                                std::size_t max_idle);

/// Where images in Parquet files are.
struct ImageRows {
  struct Place {
    std::int32_t file = 0;  // index in `files`
    std::int64_t row = 0;
  };
  std::vector<std::filesystem::path> files;
  std::vector<Place> places;  // by step
};

/// A camera whose images are in Parquet files. A file is decoded in at most `max_bytes` of
/// memory. `rows` must outlive the camera.
std::unique_ptr<RecordedCamera> MakeParquetCamera(const ImageRows& rows, const Feature& feature,
                                                  std::optional<DepthScale> depth,
                                                  std::size_t max_idle, std::int64_t max_bytes);

/// An estimate of the memory of an open file with images [bytes].
std::size_t StreamBytes(const Feature& feature);

}  // namespace dp_bench::lerobot
