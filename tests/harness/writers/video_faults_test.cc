// Videos through libav, their notes, and images.
#include <gtest/gtest.h>

#include "core/atomic_file.h"
#include "harness/writers/single_fault.h"
#include "media/png.h"
#include "media/video_encoder.h"
#include "run/video_notes.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using enum FaultyCall;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr int kWidth = 64;
constexpr int kHeight = 48;

RgbImage Image(std::uint8_t shade) {
  RgbImage image(kWidth, kHeight);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<std::uint8_t>(shade + i % 7 * 20);
  }
  return image;
}

void WriteVideo(const fs::path& file, std::uint8_t shade) {
  media::VideoEncoder encoder(file, {.width = kWidth, .height = kHeight, .fps = 10.0});
  for (int i = 0; i < 3; ++i) encoder.Write(Image(shade));
  encoder.Finish();
}

run::VideoNotes Notes(double reward) {
  return {.n_action_steps = 1, .action_dim = 1, .reward = {reward}, .success = {0}};
}

// A writer of one file, whose content is a grey image of the given shade.
Writer OfFile(const char* name, const char* file,
              const std::function<void(const fs::path&, std::uint8_t)>& write) {
  const auto bytes = [=](const fs::path& folder) {
    return core::ReadFile(folder / file, kMaxBytes);
  };
  return {.name = name,
          .calls = {kOpen, kWrite, kFsync, kRename},
          .prepare =
              [=](const fs::path& folder) {
                // both states, for comparison
                for (const char* reference : {kOld, kNew}) {
                  fs::create_directories(folder / reference);
                  write(folder / reference / file, reference == kOld ? 10 : 90);
                }
                write(folder / file, 10);
              },
          .write = [=](const fs::path& folder) { write(folder / file, 90); },
          .find = [=](const fs::path& folder) -> std::string {
            if (bytes(folder) == bytes(folder / kOld)) return kOld;
            return bytes(folder) == bytes(folder / kNew) ? kNew : "a damaged file";
          }};
}

TEST(VideoFaults, AVideoIsTheOldOneOrTheNewOne) {
  FailEachCallOnce(OfFile("video", "video.mp4", WriteVideo));
}

TEST(VideoFaults, AGifIsTheOldOneOrTheNewOne) {
  FailEachCallOnce(OfFile("gif", "video.gif", WriteVideo));
}

TEST(VideoFaults, NotesAreTheOldOnesOrTheNewOnes) {
  FailEachCallOnce(OfFile(
      "video notes", "video.safetensors",
      [](const fs::path& file, std::uint8_t shade) { run::WriteVideoNotes(file, Notes(shade)); }));
}

TEST(VideoFaults, AnImageIsTheOldOneOrTheNewOne) {
  FailEachCallOnce(OfFile("png", "image.png", [](const fs::path& file, std::uint8_t shade) {
    media::WritePng(file, Image(shade));
  }));
}

}  // namespace
}  // namespace dp_bench
