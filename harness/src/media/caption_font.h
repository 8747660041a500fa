// The font of captions, DejaVu Sans. The file is compiled in, so that films need none at run time
// and look the same on every machine.
#pragma once

#include <cairo.h>

namespace dp_bench::media {

/// Made once, kept by the program, for any thread. Throws Error{kMedia} where FreeType fails.
cairo_font_face_t* CaptionFont();

}  // namespace dp_bench::media
