# The extension module of the Kuavo environments: the env plugin `kuavo_dualarm` and dp_bench_mujoco, with the parts of
# dp_bench_core that they use. At run time, libmujoco comes from the wheel mujoco-core (dp_bench/kuavo.py loads it).
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "import importlib.util; print(*importlib.util.find_spec('mujoco').submodule_search_locations)"
  OUTPUT_VARIABLE mujoco_folder ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
set(mujoco_library "${mujoco_folder}/libmujoco.so.4.0.0")
if(NOT EXISTS "${mujoco_library}")
  message(FATAL_ERROR "The Kuavo environments need mujoco-core 4.0.0. Expected its library for ${Python_EXECUTABLE}, found no file "
                      "'${mujoco_library}'. Install it with pip, or leave them out with -DDPB_PYTHON_KUAVO=OFF.")
endif()
add_library(mujoco::mujoco SHARED IMPORTED)
set_target_properties(mujoco::mujoco PROPERTIES
  IMPORTED_LOCATION "${mujoco_library}" INTERFACE_INCLUDE_DIRECTORIES "${mujoco_folder}/include")
find_path(EGL_INCLUDE_DIR EGL/egl.h REQUIRED)  # headers only: the library is opened at run time
find_package(fmt 8 REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(spdlog 1.9 REQUIRED)

set(sdk_sources array.cc atomic_file.cc call_watch.cc console.cc control_groups.cc error.cc interfaces.cc json.cc random.cc
                regular_file.cc system_error.cc thread_pool.cc)
list(TRANSFORM sdk_sources PREPEND "${DPB_ROOT}/harness/src/core/")
# what checks the calls of an Env
set(plugin_sources buffer_guard.cc env.cc guard.cc open_call.cc spec_check.cc)
list(TRANSFORM plugin_sources PREPEND "${DPB_ROOT}/harness/src/plugin/")
file(GLOB config_sources "${DPB_ROOT}/harness/src/config/*.cc")
file(GLOB kuavo_sources "${DPB_ROOT}/plugins/envs/kuavo_dualarm/*.cc" "${DPB_ROOT}/plugins/envs/kuavo_dualarm/*/*.cc")
file(GLOB mujoco_sources "${DPB_ROOT}/harness/mujoco/*.cc")
add_library(dpb_kuavo STATIC ${sdk_sources} ${plugin_sources} ${config_sources} ${mujoco_sources} ${kuavo_sources})
# the files of a folder may be compiled together; those of the plugin have equal names
set_target_properties(dpb_kuavo PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
set_source_files_properties(${sdk_sources} PROPERTIES UNITY_GROUP core)
set_source_files_properties(${config_sources} PROPERTIES UNITY_GROUP config)
set_source_files_properties(${plugin_sources} PROPERTIES UNITY_GROUP plugin)
set_source_files_properties(${mujoco_sources} PROPERTIES UNITY_GROUP mujoco)
configure_file("${DPB_ROOT}/cmake/build_id.h.in" generated/dp_bench/build_id.h @ONLY)
target_include_directories(dpb_kuavo PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")
target_include_directories(dpb_kuavo PUBLIC
  "${DPB_ROOT}/plugins/envs/kuavo_dualarm" "${DPB_ROOT}/harness/include" "${DPB_ROOT}/harness/src" "${DPB_ROOT}/harness/mujoco")
# Debian has only shared libraries of fmt and spdlog
target_compile_definitions(dpb_kuavo PRIVATE FMT_HEADER_ONLY)
target_compile_options(dpb_kuavo PRIVATE -ffunction-sections)
target_link_libraries(dpb_kuavo
  PUBLIC mujoco::mujoco
  PRIVATE dpb_compile_options fmt::fmt-header-only nlohmann_json::nlohmann_json spdlog::spdlog_header_only ${CMAKE_DL_LIBS})

dpb_add_env_module(_kuavo native/kuavo_module.cc native/env_simulation.cc)
target_link_libraries(_kuavo PRIVATE dpb_kuavo)

install(DIRECTORY "${DPB_ROOT}/scenes/kuavo" DESTINATION dp_bench/scenes FILES_MATCHING PATTERN "*.xml")
