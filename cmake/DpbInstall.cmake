# cmake --install <build> --prefix P: a tree that works wherever it is moved.
#
#   bin/                          dp_bench, dp_bench_env_worker
#   lib/                          the SDK's libraries
#   lib/dp_bench/plugins/         plugins
#   lib/dp_bench/conformance/     conformance suites, one program per kind of plugin
#   lib/cmake/dp_bench/           find_package(dp_bench)
#   include/dp_bench/             the SDK's headers
#   share/dp_bench/               configs, scenes, models, templates of plugins
#
# LibTorch, MuJoCo and Arrow are not part of it: the programs look for them where they were built with.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(DPB_INSTALL_CMAKE "${CMAKE_INSTALL_LIBDIR}/cmake/dp_bench")
set(DPB_INSTALL_PLUGINS "${CMAKE_INSTALL_LIBDIR}/dp_bench/plugins")
set(DPB_INSTALL_CONFORMANCE "${CMAKE_INSTALL_LIBDIR}/dp_bench/conformance")
set(DPB_INSTALL_DATA "${CMAKE_INSTALL_DATADIR}/dp_bench")

# Folders of the libraries that are not part of it, for run paths.
set(DPB_LIBRARY_FOLDERS "")
if(DPB_TORCH)
  list(APPEND DPB_LIBRARY_FOLDERS "${TORCH_INSTALL_PREFIX}/lib")
endif()
if(MuJoCo_LIBRARY)
  get_filename_component(folder "${MuJoCo_LIBRARY}" DIRECTORY)
  list(APPEND DPB_LIBRARY_FOLDERS "${folder}")
endif()
if(Arrow_FOUND)
  get_filename_component(folder "${Arrow_arrow_LIBRARY}" DIRECTORY)
  list(APPEND DPB_LIBRARY_FOLDERS "${folder}")
endif()
if(MPI_C_FOUND)
  foreach(library IN LISTS MPI_C_LIBRARIES)
    get_filename_component(folder "${library}" DIRECTORY)
    list(APPEND DPB_LIBRARY_FOLDERS "${folder}")
  endforeach()
endif()
list(REMOVE_DUPLICATES DPB_LIBRARY_FOLDERS)

# dpb_install(DESTINATION TARGET...): binaries that find the SDK's libraries relative to themselves.
function(dpb_install destination)
  file(RELATIVE_PATH to_libraries "/${destination}" "/${CMAKE_INSTALL_LIBDIR}")
  foreach(target IN LISTS ARGN)
    if(NOT TARGET ${target})
      continue()
    endif()
    set_target_properties(${target} PROPERTIES
      INSTALL_RPATH "$ORIGIN;$ORIGIN/${to_libraries};${DPB_LIBRARY_FOLDERS}" INSTALL_RPATH_USE_LINK_PATH OFF)
    install(TARGETS ${target} RUNTIME DESTINATION "${destination}" LIBRARY DESTINATION "${destination}")
  endforeach()
endfunction()

get_property(plugin_targets TARGET plugins PROPERTY MANUALLY_ADDED_DEPENDENCIES)
dpb_install("${CMAKE_INSTALL_BINDIR}" dp_bench_program dp_bench_env_worker)
dpb_install("${CMAKE_INSTALL_LIBDIR}" dp_bench_core dp_bench_policy)
dpb_install("${DPB_INSTALL_PLUGINS}" ${plugin_targets})
dpb_install("${DPB_INSTALL_CONFORMANCE}" env_conformance dataset_conformance policy_conformance dpb_distant_device)

install(DIRECTORY harness/include/ "${CMAKE_BINARY_DIR}/generated/dp_bench"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(DIRECTORY configs scenes models DESTINATION "${DPB_INSTALL_DATA}" PATTERN "README.md" EXCLUDE)
install(DIRECTORY plugins/templates DESTINATION "${DPB_INSTALL_DATA}")

configure_package_config_file(cmake/dp_benchConfig.cmake.in "${CMAKE_BINARY_DIR}/generated/dp_benchConfig.cmake"
  INSTALL_DESTINATION "${DPB_INSTALL_CMAKE}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR DPB_INSTALL_CONFORMANCE)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/generated/dp_benchConfigVersion.cmake"
  COMPATIBILITY ExactVersion)
install(FILES "${CMAKE_BINARY_DIR}/generated/dp_benchConfig.cmake"
              "${CMAKE_BINARY_DIR}/generated/dp_benchConfigVersion.cmake"
              cmake/dp_benchPlugin.cmake cmake/plugin_exports.map
        DESTINATION "${DPB_INSTALL_CMAKE}")
