# cmake --build --preset dev --target check-style: clang-format and clang-tidy over all of our code.
add_custom_target(check-style
  COMMAND "${PROJECT_SOURCE_DIR}/scripts/check_style.sh"
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" USES_TERMINAL)
