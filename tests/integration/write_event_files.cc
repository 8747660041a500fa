// write_event_files FOLDER: writes the event files of a run and of its continuation from step 6.
// tests/integration/tensorboard_reads.py reads them with TensorBoard.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>

#include "dp_bench/env.h"
#include "train/event_writer.h"

namespace dp_bench::train {
namespace {

// 16 pixels wide, 8 high, [row * 16, column * 8, 200]
RgbImage Gradient() {
  RgbImage image(16, 8);
  auto pixel = image.pixels.begin();
  for (int row = 0; row < image.height; ++row) {
    for (int column = 0; column < image.width; ++column) {
      *pixel++ = static_cast<std::uint8_t>(row * 16);
      *pixel++ = static_cast<std::uint8_t>(column * 8);
      *pixel++ = 200;
    }
  }
  return image;
}

void WriteFirstRun(const std::filesystem::path& folder) {
  EventWriter writer(folder);
  for (int step = 0; step < 10; ++step) writer.AddScalar("train_loss", 1.0 / (1 + step), step);
  writer.AddScalar("grad_norm", std::numeric_limits<double>::quiet_NaN(), 1);
  writer.AddScalar("grad_norm", std::numeric_limits<double>::infinity(), 2);
  for (const int step : {5, 9}) {
    writer.AddScalar("test/mean_score", 0.5, step);
    writer.AddImage("rollout", Gradient(), step);
  }
}

void WriteContinuation(const std::filesystem::path& folder) {
  EventWriter writer(folder, 6);
  for (const int step : {6, 7}) writer.AddScalar("train_loss", 100.0 + step, step);
}

}  // namespace
}  // namespace dp_bench::train

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_event_files FOLDER\n", stderr);
    return 2;
  }
  try {
    dp_bench::train::WriteFirstRun(argv[1]);
    dp_bench::train::WriteContinuation(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
