# dpb_add_plugin(KIND env|dataset|writer|policy NAME my_env SOURCES my_env.cc ... [LINK ...] [OBS low_dim rgb rgbd])
#
# Builds <build>/plugins/libdpb_<kind>_<name>.so, and registers the test conformance.<kind>.<name>, with the params in
# the file conformance.json beside the CMakeLists.txt if there is one. OBS: what a policy can observe, one test each.
# Folders configs/ (with task/ or policy/) and scenes/ beside the CMakeLists.txt are copied to <build>/plugins, where dp_bench
# finds them with --plugin-dir <build>/plugins.
set(DP_BENCH_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")

function(dpb_add_plugin)
  cmake_parse_arguments(PLUGIN "" "KIND;NAME" "SOURCES;LINK;OBS" ${ARGN})
  if(NOT PLUGIN_KIND MATCHES "^(env|dataset|writer|policy)$")
    message(FATAL_ERROR "dpb_add_plugin: KIND is '${PLUGIN_KIND}'; expected env, dataset, writer or policy")
  endif()
  if(NOT PLUGIN_NAME MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "dpb_add_plugin: NAME is '${PLUGIN_NAME}'; expected small letters, digits and _")
  endif()
  set(sdk dp_bench::sdk)
  if(PLUGIN_KIND STREQUAL "policy")
    set(sdk dp_bench::policy)
  endif()
  if(NOT TARGET ${sdk})
    message(FATAL_ERROR "dpb_add_plugin: a policy needs find_package(dp_bench COMPONENTS policy)")
  endif()

  set(target dpb_${PLUGIN_KIND}_${PLUGIN_NAME})
  add_library(${target} MODULE ${PLUGIN_SOURCES})
  target_link_libraries(${target} PRIVATE ${sdk} ${PLUGIN_LINK})
  target_compile_definitions(${target} PRIVATE DPB_PLUGIN_NAME="${PLUGIN_NAME}")
  # with contraction, the bits of a simulation would depend on whether the compiler finds an FMA
  target_compile_options(${target} PRIVATE -Wall -Wextra -ffp-contract=off)
  target_link_options(${target} PRIVATE
    -Wl,--no-undefined -Wl,--exclude-libs,ALL "-Wl,--version-script=${DP_BENCH_CMAKE_DIR}/plugin_exports.map")
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/plugins")

  foreach(folder configs scenes)
    if(IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
      add_custom_command(TARGET ${target} POST_BUILD COMMAND "${CMAKE_COMMAND}" -E copy_directory
                         "${CMAKE_CURRENT_SOURCE_DIR}/${folder}" "${CMAKE_BINARY_DIR}/plugins/${folder}")
    endif()
  endforeach()

  if(NOT BUILD_TESTING OR PLUGIN_KIND STREQUAL "writer")  # there is no suite for writers
    return()
  endif()
  set(command dp_bench::${PLUGIN_KIND}_conformance --plugin=$<TARGET_FILE:${target}>)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/conformance.json")
    list(APPEND command "--params=${CMAKE_CURRENT_SOURCE_DIR}/conformance.json")
  endif()
  if(NOT PLUGIN_OBS)
    add_test(NAME conformance.${PLUGIN_KIND}.${PLUGIN_NAME} COMMAND ${command}
             WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  foreach(obs IN LISTS PLUGIN_OBS)
    add_test(NAME conformance.${PLUGIN_KIND}.${PLUGIN_NAME}.${obs} COMMAND ${command} --obs=${obs}
             WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  endforeach()
endfunction()
