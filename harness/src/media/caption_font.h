// The font of captions, DejaVu Sans. The font file is compiled in, so videos need no installed font
// and look the same on every machine.
#pragma once

#include <cairo.h>

namespace dp_bench::media {

/// Created once and kept until the program ends; any thread may use it. Throws Error{kMedia} if
/// FreeType fails.
cairo_font_face_t* CaptionFont();

}  // namespace dp_bench::media
