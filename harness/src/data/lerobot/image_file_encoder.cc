#include "data/lerobot/image_file_encoder.h"

#include <cstring>
#include <functional>
#include <utility>

#include "core/thread_pool.h"
#include "dp_bench/error.h"
#include "media/png.h"
#include "media/video_encoder.h"

namespace dp_bench::lerobot {
namespace {

constexpr std::size_t kMaxWaiting = 32;  // images in memory

RgbImage CopyRgb(int width, int height, std::span<const std::byte> pixels) {
  RgbImage image(width, height);
  DPB_ASSERT(pixels.size() == image.pixels.size());
  std::memcpy(image.pixels.data(), pixels.data(), pixels.size());
  return image;
}

// Returns the function that encodes a copy of `pixels`.
std::function<std::string()> Encoding(const WrittenFeature& camera,
                                      std::span<const std::byte> pixels) {
  if (camera.type == KeyType::kRgb) {
    return
        [image = CopyRgb(camera.width, camera.height, pixels)] { return media::EncodePng(image); };
  }
  std::vector<std::uint16_t> levels(pixels.size() / sizeof(std::uint16_t));
  std::memcpy(levels.data(), pixels.data(), pixels.size());
  return [width = camera.width, height = camera.height, levels = std::move(levels)] {
    return media::EncodeGreyPng(width, height, levels);
  };
}

}  // namespace

ImageFileEncoder::ImageFileEncoder(const WrittenFeature& camera, core::ThreadPool& pool)
    : camera_(camera), pool_(pool) {}

void ImageFileEncoder::Add(std::span<const std::byte> pixels) {
  if (files_.size() >= kMaxWaiting) files_[files_.size() - kMaxWaiting].wait();
  files_.push_back(core::RunOn(pool_, Encoding(camera_, pixels)));
}

std::vector<std::string> ImageFileEncoder::Take() {
  std::vector<std::string> result;
  for (std::future<std::string>& file : files_) result.push_back(file.get());
  files_.clear();
  return result;
}

ImageVideo::ImageVideo(const std::filesystem::path& file, const media::VideoOptions& options)
    : width_(options.width),
      height_(options.height),
      encoder_(std::make_unique<media::VideoEncoder>(file, options)),
      thread_(std::make_unique<core::ThreadPool>(1)) {}

ImageVideo::~ImageVideo() = default;

void ImageVideo::Add(std::span<const std::byte> pixels) {
  if (waiting_.size() >= kMaxWaiting) {
    waiting_.front().get();
    waiting_.pop_front();
  }
  waiting_.push_back(RunOn(
      *thread_, [this, image = CopyRgb(width_, height_, pixels)] { encoder_->Write(image); }));
}

void ImageVideo::Finish() {
  for (std::future<void>& image : waiting_) image.get();
  encoder_->Finish();
}

}  // namespace dp_bench::lerobot
