# cmake --build --preset release --target sdk-reference: HTML pages of the SDK's docstrings.
configure_file(docs/reference/Doxyfile.in "${CMAKE_BINARY_DIR}/reference/Doxyfile" @ONLY)
set(DPB_REFERENCE_COMMAND "${PROJECT_SOURCE_DIR}/docs/reference/build.sh" "${CMAKE_BINARY_DIR}/reference/Doxyfile"
    "${CMAKE_BINARY_DIR}/reference")
add_custom_target(sdk-reference COMMAND ${DPB_REFERENCE_COMMAND} VERBATIM)
