# The fingerprint that must be identical in host and plugin: compiler, C++ ABI, sanitizer and, for policies, LibTorch. The
# SDK itself has an ABI number (dp_bench/plugin.h). C++ types cross the plugin boundary only if both match. build_id.h finds
# out about the compiler itself, because a plugin may be built with other options than the host.
configure_file("${CMAKE_CURRENT_LIST_DIR}/build_id.h.in"
               "${CMAKE_BINARY_DIR}/generated/dp_bench/build_id.h" @ONLY)
