# Tests run side by side: threads that wait for each other must not spin meanwhile.
set(DPB_TEST_ENVIRONMENT "OMP_WAIT_POLICY=passive")

# dpb_add_test(NAME harness.data LABELS unit SOURCES ... [LINK ...]): one GoogleTest program.
function(dpb_add_test)
  cmake_parse_arguments(TEST "" "NAME" "SOURCES;LINK;LABELS" ${ARGN})
  string(REPLACE "." "_" target "test_${TEST_NAME}")
  add_executable(${target} ${TEST_SOURCES})
  target_link_libraries(${target} PRIVATE dpb_test_support ${TEST_LINK} GTest::gmock GTest::gtest_main
                                          dpb_compile_options)
  if(dp_bench_torch IN_LIST TEST_LINK)
    dpb_reuse_torch_headers(${target})
  endif()
  add_test(NAME ${TEST_NAME} COMMAND ${target})
  set_tests_properties(${TEST_NAME} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT 300
                                               ENVIRONMENT "${DPB_TEST_ENVIRONMENT}")
endfunction()

# What dpb_add_plugin registers for every plugin: the conformance suite of its kind, and a look at
# what it exports.
function(dpb_add_plugin_tests target kind name params obs)
  set(test conformance.${kind}.${name})
  set(command ${kind}_conformance --plugin=$<TARGET_FILE:${target}> "--params=${params}")
  if(NOT obs)
    add_test(NAME ${test} COMMAND ${command})
    set_tests_properties(${test} PROPERTIES LABELS conformance TIMEOUT 300
                                             ENVIRONMENT "${DPB_TEST_ENVIRONMENT}")
  endif()
  foreach(kind_of_obs IN LISTS obs)
    add_test(NAME ${test}.${kind_of_obs} COMMAND ${command} --obs=${kind_of_obs})
    set_tests_properties(${test}.${kind_of_obs} PROPERTIES LABELS conformance TIMEOUT 300
                                             ENVIRONMENT "${DPB_TEST_ENVIRONMENT}")
  endforeach()
  add_test(NAME exports.${kind}.${name}
           COMMAND "${PROJECT_SOURCE_DIR}/tests/conformance/check_exports.sh" $<TARGET_FILE:${target}>)
  set_tests_properties(exports.${kind}.${name} PROPERTIES LABELS unit)
endfunction()
