# The extension module of policies: dp_bench/deploy.h of an installation of dp_bench, whose libraries it finds by their
# absolute path. So it belongs to that installation and cannot be part of a wheel for other machines.
find_package(dp_bench ${SKBUILD_PROJECT_VERSION} EXACT REQUIRED)
if(NOT TARGET dp_bench::deploy)
  message(FATAL_ERROR "load_policy needs a dp_bench with LibTorch; that in '${dp_bench_DIR}' was built without it")
endif()
get_target_property(deploy_library dp_bench::deploy IMPORTED_LOCATION)
get_filename_component(DPB_LIBRARY_FOLDER "${deploy_library}" DIRECTORY)

# a domain of its own: modules of one domain share their exception translators, and environments raise other errors
nanobind_add_module(_policy STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS NOMINSIZE NB_DOMAIN dp_bench_policy native/policy_module.cc)
target_link_libraries(_policy PRIVATE dp_bench::deploy dpb_compile_options)
# not -static-libstdc++: exceptions come from another library
set_target_properties(_policy PROPERTIES INSTALL_RPATH "${DPB_LIBRARY_FOLDER}")

nanobind_add_stub(_policy_stub MODULE _policy OUTPUT _policy.pyi PYTHON_PATH $<TARGET_FILE_DIR:_policy> DEPENDS _policy)

file(CONFIGURE OUTPUT _policy_library.py
     CONTENT "\"\"\"The folder of the libraries that dp_bench._policy needs.\"\"\"\n\nFOLDER = \"@DPB_LIBRARY_FOLDER@\"\n" @ONLY)
install(TARGETS _policy LIBRARY DESTINATION dp_bench)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/_policy.pyi" "${CMAKE_CURRENT_BINARY_DIR}/_policy_library.py" DESTINATION dp_bench)
