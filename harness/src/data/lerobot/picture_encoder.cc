#include "data/lerobot/picture_encoder.h"

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "core/thread_pool.h"
#include "dp_bench/error.h"
#include "media/png.h"
#include "media/video_encoder.h"

namespace dp_bench::lerobot {

namespace {

constexpr std::size_t kMaxWaiting = 32;  // images in memory

// Returns the function that encodes a copy of `picture`.
std::function<std::string()> Encoding(const WrittenFeature& camera,
                                      std::span<const std::byte> picture) {
  if (camera.type == KeyType::kRgb) {
    RgbImage image(camera.width, camera.height);
    std::memcpy(image.pixels.data(), picture.data(), picture.size());
    return [image = std::move(image)] { return media::EncodePng(image); };
  }
  std::vector<std::uint16_t> levels(picture.size() / sizeof(std::uint16_t));
  std::memcpy(levels.data(), picture.data(), picture.size());
  return [width = camera.width, height = camera.height, levels = std::move(levels)] {
    return media::EncodeGreyPng(width, height, levels);
  };
}

}  // namespace

PictureEncoder::PictureEncoder(const WrittenFeature& camera, core::ThreadPool& pool)
    : camera_(camera), pool_(pool) {}

void PictureEncoder::Add(std::span<const std::byte> picture) {
  if (files_.size() >= kMaxWaiting) files_[files_.size() - kMaxWaiting].wait();
  // shared, because a std::function must be copyable
  const auto task = std::make_shared<std::packaged_task<std::string()>>(Encoding(camera_, picture));
  files_.push_back(task->get_future());
  pool_.Submit([task] { (*task)(); });
}

std::vector<std::string> PictureEncoder::Take() {
  std::vector<std::string> result;
  for (std::future<std::string>& file : files_) result.push_back(file.get());
  files_.clear();
  return result;
}

namespace {

constexpr std::size_t kMaxWaitingPictures = 32;

}  // namespace

PictureVideo::PictureVideo(const std::filesystem::path& file, const media::VideoOptions& options,
                           core::ThreadPool& pool)
    : width_(options.width),
      height_(options.height),
      pool_(pool),
      encoder_(std::make_unique<media::VideoEncoder>(file, options)) {}

PictureVideo::~PictureVideo() {
  std::unique_lock lock(mutex_);
  waiting_.clear();
  changed_.wait(lock, [this] { return !is_encoding_; });
}

void PictureVideo::Add(std::span<const std::byte> picture) {
  RgbImage image(width_, height_);
  DPB_ASSERT(picture.size() == image.pixels.size());
  std::memcpy(image.pixels.data(), picture.data(), picture.size());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < kMaxWaitingPictures; });
  if (fault_ != nullptr) std::rethrow_exception(fault_);
  waiting_.push_back(std::move(image));
  if (is_encoding_) return;
  is_encoding_ = true;
  pool_.Submit([this] { EncodeWaiting(); });
}

void PictureVideo::EncodeWaiting() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    const RgbImage image = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    lock.unlock();
    std::exception_ptr fault;
    try {
      encoder_->Write(image);
    } catch (...) {
      fault = std::current_exception();
    }
    lock.lock();
    if (fault != nullptr) {
      fault_ = fault;
      waiting_.clear();
    }
  }
  is_encoding_ = false;
  changed_.notify_all();
}

void PictureVideo::Finish() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_encoding_; });
    if (fault_ != nullptr) std::rethrow_exception(fault_);
  }
  encoder_->Finish();
}

}  // namespace dp_bench::lerobot
