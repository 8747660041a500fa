// The speed of recording videos: 300 frames of a moving point, 384 x 384, one per thread.
#include <benchmark/benchmark.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "media/video_encoder.h"

namespace dp_bench {
namespace {

constexpr int kSize = 384;
constexpr int kFrames = 300;

// White with a moving disc, like pusht and point_mass: 96 x 96 enlarged four times.
std::vector<RgbImage> Images() {
  std::vector<RgbImage> images;
  for (int t = 0; t < kFrames; ++t) {
    RgbImage image(kSize, kSize);
    const double x = 192.0 + 120.0 * std::cos(0.05 * t);
    const double y = 192.0 + 120.0 * std::sin(0.07 * t);
    for (int i = 0; i < kSize * kSize; ++i) {
      const int column = i % kSize / 4 * 4;
      const int row = i / kSize / 4 * 4;
      const bool is_on = std::hypot(column - x, row - y) < 40.0;
      for (int c = 0; c < 3; ++c) {
        image.pixels[static_cast<std::size_t>(3 * i + c)] = is_on ? 60 : 245;
      }
    }
    images.push_back(std::move(image));
  }
  return images;
}

void EncodeVideo(benchmark::State& state) {
  static const std::vector<RgbImage> images = Images();
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("dp_bench_video_" + std::to_string(state.thread_index()) + ".mp4");
  for (auto _ : state) {
    media::VideoEncoder encoder(path, {.width = kSize, .height = kSize, .fps = 10.0});
    for (const RgbImage& image : images) encoder.Write(image);
    encoder.Finish();
  }
  std::filesystem::remove(path);
  state.counters["videos/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(EncodeVideo)->ThreadRange(1, 2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dp_bench

BENCHMARK_MAIN();
