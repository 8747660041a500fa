#include "data/lerobot/picture_video.h"

#include <cstring>
#include <utility>

#include "core/thread_pool.h"
#include "dp_bench/error.h"
#include "media/video_encoder.h"

namespace dp_bench::lerobot {
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
