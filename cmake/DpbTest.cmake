# GoogleTest and the headers that nearly every test includes, compiled once for the tests without LibTorch.
file(WRITE "${CMAKE_BINARY_DIR}/generated/test_precompiled.cc" "")
add_library(dpb_test_precompiled OBJECT "${CMAKE_BINARY_DIR}/generated/test_precompiled.cc")
target_link_libraries(dpb_test_precompiled PRIVATE GTest::gmock GTest::gtest fmt::fmt nlohmann_json::nlohmann_json)
target_precompile_headers(dpb_test_precompiled PRIVATE
  "${PROJECT_SOURCE_DIR}/harness/src/core/precompiled.h" <gmock/gmock.h> <gtest/gtest.h>)

# Most tests run for less time than it takes to optimize them; what they test is optimized. With sanitizers they run longer.
set(DPB_TEST_LEVEL -O0)
if(DPB_SANITIZE)
  set(DPB_TEST_LEVEL -O1)
endif()
target_compile_options(dpb_test_precompiled PRIVATE ${DPB_TEST_LEVEL})

function(dpb_reuse_test_headers target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC ${DPB_TEST_LEVEL})
  target_precompile_headers(${target} REUSE_FROM dpb_test_precompiled)
endfunction()

# Tests run in parallel, so each gets one thread for its products (a quarter less CPU time than with two that wait for each
# other). What depends on the number of threads sets it.
set(DPB_TEST_ENVIRONMENT "OMP_WAIT_POLICY=passive;OMP_NUM_THREADS=1")

# [s]; sanitizers make everything several times slower
set(DPB_TEST_TIMEOUT 300)
if(DPB_SANITIZE)
  set(DPB_TEST_TIMEOUT 1500)
  # tests of plugins that crash expect the message of our own handler; plugins are first loaded in a forked process
  list(APPEND DPB_TEST_ENVIRONMENT ASAN_OPTIONS=handle_segv=0
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan_suppressions.txt"
    "TSAN_OPTIONS=handle_segv=0:die_after_fork=0:suppressions=${PROJECT_SOURCE_DIR}/tests/tsan_suppressions.txt")
endif()

# For tests that draw: with the address sanitizer, memory that the OpenGL driver keeps until the process ends is no fault.
function(dpb_allow_driver_leaks test)
  if(DPB_SANITIZE)
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=handle_segv=0:detect_leaks=0)
  endif()
endfunction()

# Notes files as sources of a test, for dpb_require_all_tests.
function(dpb_note_test_sources)
  foreach(source IN LISTS ARGN)
    get_filename_component(path "${source}" ABSOLUTE)
    set_property(GLOBAL APPEND PROPERTY DPB_TEST_SOURCES "${path}")
  endforeach()
endfunction()

# Stops if a file *_test.cc below the current folder belongs to no test program.
function(dpb_require_all_tests)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc")
  get_property(known GLOBAL PROPERTY DPB_TEST_SOURCES)
  list(REMOVE_ITEM files ${known})
  if(files)
    message(FATAL_ERROR "no test program compiles ${files}; list it in the CMakeLists.txt of its folder")
  endif()
endfunction()

# dpb_add_test(NAME harness.data LABELS unit SOURCES ... [LINK ...]): one GoogleTest program. With PARTS harness/task
# harness/profile ... it has the tests harness.task, harness.profile ..., each of a folder or a file: LibTorch's headers are
# compiled, and its libraries linked, once for all of them.
function(dpb_add_test)
  cmake_parse_arguments(TEST "" "NAME" "SOURCES;PARTS;LINK;LABELS" ${ARGN})
  dpb_note_test_sources(${TEST_SOURCES})
  string(REPLACE "." "_" target "test_${TEST_NAME}")
  add_executable(${target} ${TEST_SOURCES})
  target_link_libraries(${target} PRIVATE dpb_test_support ${TEST_LINK} GTest::gmock GTest::gtest_main
                                          dpb_compile_options)
  if(dp_bench_all IN_LIST TEST_LINK)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 24)  # LibTorch's headers cost 4 s in each unit
    dpb_reuse_torch_headers(${target})
  else()
    dpb_reuse_test_headers(${target})
  endif()
  set(tests ${TEST_NAME})
  if(TEST_PARTS)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/parts_main.cc")
    string(REPLACE "/" "." tests "${TEST_PARTS}")
    foreach(test part IN ZIP_LISTS tests TEST_PARTS)
      add_test(NAME ${test} COMMAND ${target} ${part})
    endforeach()
  else()
    add_test(NAME ${TEST_NAME} COMMAND ${target})
  endif()
  set_tests_properties(${tests} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT ${DPB_TEST_TIMEOUT}
                                           ENVIRONMENT "${DPB_TEST_ENVIRONMENT}")
endfunction()

function(dpb_add_conformance_test name)
  add_test(NAME conformance.${name} COMMAND ${ARGN} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(conformance.${name} PROPERTIES LABELS conformance TIMEOUT ${DPB_TEST_TIMEOUT}
                                                      ENVIRONMENT "${DPB_TEST_ENVIRONMENT}")
endfunction()

# What dpb_add_plugin registers for every plugin: the conformance suite of its kind, and a check of what it exports.
function(dpb_add_plugin_tests target kind name obs)
  set(test ${kind}.${name})
  set(command ${kind}_conformance --plugin=$<TARGET_FILE:${target}>)
  file(GLOB variants CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" conformance.*.json)
  foreach(variant IN LISTS variants)
    string(REGEX REPLACE "^conformance\\.(.*)\\.json$" "\\1" variant_name "${variant}")
    set(kinds_of_obs ${obs})
    file(READ "${variant}" params)
    if(params MATCHES "\"objective\":")
      # An objective sees features, whatever they come from: the first kind is enough. Of rgbd_fusion that is images.
      list(GET obs 0 kinds_of_obs)
    endif()
    foreach(kind_of_obs IN LISTS kinds_of_obs)
      dpb_add_conformance_test(${test}.${variant_name}.${kind_of_obs} ${command}
                               "--params=${CMAKE_CURRENT_SOURCE_DIR}/${variant}" --obs=${kind_of_obs})
    endforeach()
  endforeach()
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/conformance.json")
    list(APPEND command "--params=${CMAKE_CURRENT_SOURCE_DIR}/conformance.json")
  endif()
  if(NOT obs)
    dpb_add_conformance_test(${test} ${command})
  endif()
  if(kind STREQUAL "env")
    dpb_add_conformance_test(${test}.isolated ${command} --isolate)
  endif()
  foreach(kind_of_obs IN LISTS obs)
    dpb_add_conformance_test(${test}.${kind_of_obs} ${command} --obs=${kind_of_obs})
  endforeach()
  add_test(NAME exports.${test}
           COMMAND "${PROJECT_SOURCE_DIR}/tests/conformance/check_exports.sh" $<TARGET_FILE:${target}>)
  set_tests_properties(exports.${test} PROPERTIES LABELS unit)
endfunction()

# Settings with which mpirun starts ranks in a container, even if there are more ranks than cores. The last one is for
# containers in which a process may not read the memory of another.
set(DPB_MPIRUN_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
                           OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none)
if(DPB_SANITIZE)
  list(APPEND DPB_MPIRUN_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)  # Open MPI leaks memory in modules that it unloads
endif()

# dpb_add_ranks_test(NAME harness.distributed.mpi RANKS 3 SOURCES ... [LINK ...]): a GoogleTest program that mpirun
# starts several times; see tests/support/ranks.h. Skipped with a message if there is no MPI.
function(dpb_add_ranks_test)
  cmake_parse_arguments(TEST "" "NAME;RANKS" "SOURCES;LINK" ${ARGN})
  dpb_note_test_sources(${TEST_SOURCES})
  if(NOT MPI_C_FOUND)
    add_test(NAME ${TEST_NAME} COMMAND "${CMAKE_COMMAND}" -E echo "skipped: no MPI was found")
    set_tests_properties(${TEST_NAME} PROPERTIES LABELS unit SKIP_REGULAR_EXPRESSION "skipped")
    return()
  endif()
  string(REPLACE "." "_" target "test_${TEST_NAME}")
  add_executable(${target} "${PROJECT_SOURCE_DIR}/tests/support/ranks_main.cc" ${TEST_SOURCES})
  target_link_libraries(${target} PRIVATE dpb_test_support dp_bench_ranks ${TEST_LINK} GTest::gmock
                                          GTest::gtest dpb_compile_options)
  if(dp_bench_all IN_LIST TEST_LINK)
    dpb_reuse_torch_headers(${target})
  endif()
  add_test(NAME ${TEST_NAME}
           COMMAND "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${TEST_RANKS} $<TARGET_FILE:${target}>)
  set_tests_properties(${TEST_NAME} PROPERTIES LABELS unit TIMEOUT ${DPB_TEST_TIMEOUT} PROCESSORS 2
                       ENVIRONMENT "${DPB_TEST_ENVIRONMENT};${DPB_MPIRUN_ENVIRONMENT}")
endfunction()
