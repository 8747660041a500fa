# dpb_add_plugin(KIND env NAME pusht SOURCES ... [LINK ...] [OBS low_dim rgb rgbd])
# Builds <build>/plugins/libdpb_<kind>_<name>.so with one exported symbol, an object library
# dpb_<kind>_<name>_objects for unit tests, and registers the tests conformance.<kind>.<name> (with the
# params in the plugin's conformance.json, if it has one) and exports.<kind>.<name>. OBS: what a policy can
# observe, one conformance test each; conformance.<variant>.json repeats them with other params, or only the
# first of them if it sets an objective. WITHOUT_CONFORMANCE: another test checks the plugin.
function(dpb_add_plugin)
  cmake_parse_arguments(PLUGIN "WITHOUT_CONFORMANCE" "KIND;NAME" "SOURCES;LINK;OBS" ${ARGN})
  if(NOT DPB_PLUGINS STREQUAL "all" AND NOT PLUGIN_NAME IN_LIST DPB_PLUGINS)
    return()
  endif()
  set(target dpb_${PLUGIN_KIND}_${PLUGIN_NAME})
  if(PLUGIN_KIND STREQUAL "policy")
    set(sdk dp_bench_policy)
  else()
    set(sdk dp_bench_core)
  endif()

  add_library(${target}_objects OBJECT ${PLUGIN_SOURCES})
  target_include_directories(${target}_objects PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${target}_objects PUBLIC ${sdk} ${PLUGIN_LINK} PRIVATE dpb_compile_options)
  target_compile_definitions(${target}_objects PRIVATE DPB_PLUGIN_NAME="${PLUGIN_NAME}")
  set_target_properties(${target}_objects PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(PLUGIN_KIND STREQUAL "policy")
    target_precompile_headers(${target}_objects REUSE_FROM dp_bench_policy)
    target_compile_options(${target}_objects PRIVATE -O1)  # GCC accepts precompiled headers of the same level only
  endif()

  add_library(${target} MODULE)
  add_dependencies(plugins ${target})
  target_link_libraries(${target} PRIVATE ${target}_objects)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/plugins")
  target_link_options(${target} PRIVATE
    -Wl,--no-undefined -Wl,--exclude-libs,ALL
    "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/plugin_exports.map")

  if(DPB_TESTS)
    if(NOT PLUGIN_WITHOUT_CONFORMANCE)
      dpb_add_plugin_tests(${target} ${PLUGIN_KIND} ${PLUGIN_NAME} "${PLUGIN_OBS}")
    endif()
  endif()
endfunction()
