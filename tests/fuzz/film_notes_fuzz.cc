// The notes of a film, and the plots that a report draws of them.
#include "fuzz.h"
#include "report/film_plots.h"
#include "rollout/film_notes.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] {
    const FilmNotes notes = ParseFilmNotes(input.bytes(), "film.safetensors");
    PlannedPathsSvg(notes, 1.0);
    LinePlotSvg(RewardPlot(notes));
    LinePlotSvg(ActionPlot(notes));
  });
}
