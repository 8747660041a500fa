# The extension modules that use an installation of dp_bench: any env plugin, by dp_bench/load_env.h, and policies, by
# dp_bench/deploy.h. They find its libraries by their absolute path, so they belong to that installation and cannot be part of
# a wheel for other machines.
find_package(dp_bench ${SKBUILD_PROJECT_VERSION} EXACT REQUIRED)
get_target_property(core_library dp_bench::sdk IMPORTED_LOCATION)
get_filename_component(DPB_LIBRARY_FOLDER "${core_library}" DIRECTORY)

# dpb_add_installed_module(NAME LIBRARY file.cc...)
function(dpb_add_installed_module name library)
  # a domain of its own: modules of one domain share their exception translators, and environments raise other errors
  nanobind_add_module(${name} STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS NOMINSIZE NB_DOMAIN dp_bench${name} ${ARGN})
  target_link_libraries(${name} PRIVATE ${library} dpb_compile_options Threads::Threads)
  # not -static-libstdc++: exceptions come from another library
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "${DPB_LIBRARY_FOLDER}")
  dpb_install_module(${name})
endfunction()

dpb_add_installed_module(_plugins dp_bench::sdk native/plugin_module.cc native/env_simulation.cc ${batch_sources}
                         "${DPB_ROOT}/harness/src/core/thread_pool.cc")
target_include_directories(_plugins PRIVATE "${DPB_ROOT}/harness/src")

if(NOT TARGET dp_bench::deploy)
  message(FATAL_ERROR "load_policy needs a dp_bench with LibTorch; that in '${dp_bench_DIR}' was built without it")
endif()
dpb_add_installed_module(_policy dp_bench::deploy native/policy_module.cc)

file(CONFIGURE OUTPUT _installation.py
     CONTENT "\"\"\"The folder of the libraries that dp_bench._plugins and dp_bench._policy need.\"\"\"\n\nLIBRARIES = \"@DPB_LIBRARY_FOLDER@\"\n" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/_installation.py" DESTINATION dp_bench)
