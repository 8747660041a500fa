// The notes of a video, and the plots that a report draws from them.
#include "fuzz.h"
#include "report/video_plots.h"
#include "run/video_notes.h"
#include "scratch.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  static const fuzz::Scratch scratch;
  fuzz::Accepts([&] {
    const run::VideoNotes notes =
        run::ReadVideoNotes(scratch.Put("video.safetensors", input.bytes()));
    report::PlannedPathsSvg(notes, 1.0);
    report::LinePlotSvg(report::RewardPlot(notes));
    report::LinePlotSvg(report::ActionPlot(notes));
  });
}
