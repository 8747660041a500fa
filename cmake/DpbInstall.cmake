# cmake --install <build> --prefix P: a tree that works wherever it is moved.
#
#   bin/                          dp_bench, dp_bench_light, dp_bench_torch, dp_bench_env_worker
#   lib/                          the SDK's libraries
#   lib/dp_bench/plugins/         plugins
#   lib/dp_bench/conformance/     conformance suites, one program per kind of plugin
#   lib/cmake/dp_bench/           find_package(dp_bench)
#   include/dp_bench/             the SDK's headers
#   share/dp_bench/               configs, scenes, models, templates of plugins
#   share/doc/dp_bench/           license and notices
#
#   lib/dp_bench/external/        LibTorch, MuJoCo and Arrow: links to those it was built with
#
# What is not built yet is built first: a user who only ran the demo has neither the library for deployment nor the suites.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(DPB_INSTALL_CMAKE "${CMAKE_INSTALL_LIBDIR}/cmake/dp_bench")
set(DPB_INSTALL_PLUGINS "${CMAKE_INSTALL_LIBDIR}/dp_bench/plugins")
set(DPB_INSTALL_CONFORMANCE "${CMAKE_INSTALL_LIBDIR}/dp_bench/conformance")
set(DPB_INSTALL_DATA "${CMAKE_INSTALL_DATADIR}/dp_bench")

get_property(plugin_targets TARGET plugins PROPERTY MANUALLY_ADDED_DEPENDENCIES)
set(installed_targets dp_bench_program dp_bench_light_program dp_bench_torch dp_bench_env_worker
    dp_bench_core dp_bench_mujoco dp_bench_policy dp_bench_deploy
    env_conformance dataset_conformance policy_conformance dpb_distant_device ${plugin_targets})
add_custom_target(dpb_installed)
set(installed_files "")
foreach(target IN LISTS installed_targets)
  if(TARGET ${target})
    add_dependencies(dpb_installed ${target})
    string(APPEND installed_files " \"$<TARGET_FILE:${target}>\"")
  endif()
endforeach()
# the first rule, so that nothing is installed if it fails
install(CODE "foreach(file IN ITEMS${installed_files})
  if(EXISTS \"\${file}\")
    continue()
  endif()
  message(STATUS \"Building what is missing: \${file}\")
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target dpb_installed RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR \"Nothing was installed: \${file} could not be built\")
  endif()
  break()
endforeach()")

# dpb_install(DESTINATION TARGET...): binaries that find all libraries relative to themselves.
function(dpb_install destination)
  file(RELATIVE_PATH to_libraries "/${destination}" "/${CMAKE_INSTALL_LIBDIR}")
  set(run_path "$ORIGIN" "$ORIGIN/${to_libraries}")
  foreach(folder torch/lib mujoco mujoco/lib pyarrow pyarrow/lib)
    list(APPEND run_path "$ORIGIN/${to_libraries}/dp_bench/external/${folder}")
  endforeach()
  foreach(target IN LISTS ARGN)
    if(NOT TARGET ${target})
      continue()
    endif()
    set_target_properties(${target} PROPERTIES
      INSTALL_RPATH "${run_path}" INSTALL_RPATH_USE_LINK_PATH OFF)
    install(TARGETS ${target} RUNTIME DESTINATION "${destination}" LIBRARY DESTINATION "${destination}")
  endforeach()
endfunction()

dpb_install("${CMAKE_INSTALL_BINDIR}" dp_bench_program dp_bench_light_program dp_bench_torch dp_bench_env_worker)
dpb_install("${CMAKE_INSTALL_LIBDIR}" dp_bench_core dp_bench_mujoco dp_bench_policy dp_bench_deploy)
dpb_install("${DPB_INSTALL_PLUGINS}" ${plugin_targets})
if(TARGET dpb_env_gymnasium)
  install(DIRECTORY plugins/envs/gymnasium/ DESTINATION "${DPB_INSTALL_PLUGINS}" FILES_MATCHING PATTERN "gym_*.py")  # beside its library
endif()
dpb_install("${DPB_INSTALL_CONFORMANCE}" env_conformance dataset_conformance policy_conformance dpb_distant_device)

install(DIRECTORY harness/include/ "${CMAKE_BINARY_DIR}/generated/dp_bench"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(DIRECTORY configs scenes models DESTINATION "${DPB_INSTALL_DATA}"
        PATTERN "README.md" EXCLUDE PATTERN "frames.png" EXCLUDE
        PATTERN "models/*/training" EXCLUDE PATTERN "models/*/evaluation" EXCLUDE)
install(DIRECTORY plugins/templates python/peers DESTINATION "${DPB_INSTALL_DATA}")
install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(DPB_HAS_MUJOCO OFF)
if(TARGET dp_bench_mujoco)
  set(DPB_HAS_MUJOCO ON)
endif()
configure_package_config_file(cmake/dp_benchConfig.cmake.in "${CMAKE_BINARY_DIR}/generated/dp_benchConfig.cmake"
  INSTALL_DESTINATION "${DPB_INSTALL_CMAKE}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR DPB_INSTALL_CONFORMANCE)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/generated/dp_benchConfigVersion.cmake"
  COMPATIBILITY ExactVersion)
install(FILES "${CMAKE_BINARY_DIR}/generated/dp_benchConfig.cmake"
              "${CMAKE_BINARY_DIR}/generated/dp_benchConfigVersion.cmake"
              cmake/dp_benchPlugin.cmake cmake/plugin_exports.map cmake/FindMuJoCo.cmake
        DESTINATION "${DPB_INSTALL_CMAKE}")

# LibTorch, MuJoCo and Arrow in external/. A line each: folder | wheel | file that the programs load | variable that
# names the folder.
set(DPB_EXTERNAL_LIBRARIES "")
set(DPB_EXTERNAL_FOLDERS "")
set(external_environment "")
macro(dpb_external_library name wheel library variable folder)
  get_filename_component(file "${library}" NAME)
  list(APPEND DPB_EXTERNAL_LIBRARIES "  \"${name}|${wheel}|${file}|${variable}\"")
  list(APPEND DPB_EXTERNAL_FOLDERS "${folder}" "${folder}/lib")
  string(APPEND external_environment " \"${variable}=${folder}\"")
endmacro()
file(STRINGS scripts/requirements.txt requirements)
string(REGEX MATCH "mujoco-core==[0-9.]+" mujoco_wheel "${requirements}")
string(REGEX MATCH "pyarrow==[0-9.]+" pyarrow_wheel "${requirements}")
if(DPB_TORCH)
  dpb_external_library(torch "torch==${Torch_VERSION}" libtorch.so DPB_TORCH_DIR "${TORCH_INSTALL_PREFIX}")
endif()
if(DPB_HAS_MUJOCO)
  get_filename_component(folder "${MuJoCo_LIBRARY}" DIRECTORY)
  string(REGEX REPLACE "/lib$" "" folder "${folder}")  # of a release; a wheel has the library beside its include/
  dpb_external_library(mujoco "${mujoco_wheel}" "${MuJoCo_LIBRARY}" MUJOCO_DIR "${folder}")
endif()
if(Arrow_FOUND)
  get_filename_component(folder "${Arrow_arrow_LIBRARY}" DIRECTORY)
  dpb_external_library(pyarrow "${pyarrow_wheel}" "${Arrow_arrow_LIBRARY}" ARROW_DIR "${folder}")
endif()
list(JOIN DPB_EXTERNAL_LIBRARIES "\n" DPB_EXTERNAL_LIBRARIES)
configure_file(cmake/package/dp_bench-libraries.in "${CMAKE_BINARY_DIR}/package/dp_bench-libraries" @ONLY)
install(PROGRAMS "${CMAKE_BINARY_DIR}/package/dp_bench-libraries" DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -E env ${external_environment}
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/dp_bench-libraries\" RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR \"dp_bench-libraries failed: \${result}\")
endif()")

add_custom_target(uninstall
  COMMAND "${CMAKE_COMMAND}" "-DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt"
          -P "${PROJECT_SOURCE_DIR}/cmake/package/uninstall.cmake" VERBATIM)
