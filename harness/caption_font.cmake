# The font of captions is compiled in, so that videos need no font at run time.
find_file(DPB_CAPTION_FONT_FILE DejaVuSans.ttf
  PATHS /usr/share/fonts/truetype/dejavu /usr/share/fonts/dejavu-sans-fonts /usr/share/fonts/TTF)
if(NOT DPB_CAPTION_FONT_FILE)
  message(FATAL_ERROR "DejaVuSans.ttf, the font of captions in videos, was not found. Install it (Debian's and Ubuntu's "
                      "package is fonts-dejavu-core), or name the file: -DDPB_CAPTION_FONT_FILE=PATH")
endif()
configure_file(src/media/caption_font.cc.in "${CMAKE_CURRENT_BINARY_DIR}/caption_font.cc" @ONLY)
target_sources(dp_bench_media PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/caption_font.cc")
# link-time optimisation does not see what an asm statement defines
set_source_files_properties("${CMAKE_CURRENT_BINARY_DIR}/caption_font.cc" PROPERTIES COMPILE_OPTIONS -fno-lto)
