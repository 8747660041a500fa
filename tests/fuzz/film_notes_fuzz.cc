// The notes of a film, and the plots that a report draws from them.
#include "fuzz.h"
#include "report/film_plots.h"
#include "run/film_notes.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] {
    const run::FilmNotes notes = run::ParseFilmNotes(input.bytes(), "film.safetensors");
    report::PlannedPathsSvg(notes, 1.0);
    report::LinePlotSvg(report::RewardPlot(notes));
    report::LinePlotSvg(report::ActionPlot(notes));
  });
}
