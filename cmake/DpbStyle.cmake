# cmake --build --preset dev --target check-style: clang-format and clang-tidy over all of our code.
add_custom_target(check-style
  COMMAND "${PROJECT_SOURCE_DIR}/scripts/check_style.sh"
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" USES_TERMINAL)

# cmake --build --preset release --target check-odr: links the program and the plugins again with link-time
# optimization. It compares the types of all files and fails if two different types have the same name.
add_custom_target(check-odr
  COMMAND "${CMAKE_COMMAND}" --preset odr
  COMMAND "${CMAKE_COMMAND}" --build --preset odr
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" USES_TERMINAL)

# cmake --build --preset release --target sdk-reference: HTML pages of the SDK's docstrings.
configure_file(docs/reference/Doxyfile.in "${CMAKE_BINARY_DIR}/reference/Doxyfile" @ONLY)
set(DPB_REFERENCE_COMMAND "${PROJECT_SOURCE_DIR}/docs/reference/build.sh" "${CMAKE_BINARY_DIR}/reference/Doxyfile"
    "${CMAKE_BINARY_DIR}/reference")
add_custom_target(sdk-reference COMMAND ${DPB_REFERENCE_COMMAND} VERBATIM)
