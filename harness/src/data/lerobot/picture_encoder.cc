#include "data/lerobot/picture_encoder.h"

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "core/thread_pool.h"
#include "media/png.h"

namespace dp_bench::lerobot {
namespace {

constexpr std::size_t kMaxWaiting = 32;  // pictures in memory

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

}  // namespace dp_bench::lerobot
