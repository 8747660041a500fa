// The notes of a video, and the plots that a report draws from them.
#include "fuzz.h"
#include "report/video_plots.h"
#include "run/video_notes.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] {
    const run::VideoNotes notes = run::ParseVideoNotes(input.bytes(), "video.safetensors");
    report::PlannedPathsSvg(notes, 1.0);
    report::LinePlotSvg(report::RewardPlot(notes));
    report::LinePlotSvg(report::ActionPlot(notes));
  });
}
