# What needs LibTorch. Its headers cost seconds in every file, so files are compiled together, and LibTorch's
# precompiled headers hold only what most of these files use.
add_library(dp_bench_policy SHARED)
dpb_harness_library(dp_bench_policy)
target_compile_options(dp_bench_policy PRIVATE -O1)  # its work is done inside LibTorch and in loops that ask for -O3
dpb_export_own_names(dp_bench_policy)
set_target_properties(dp_bench_policy PROPERTIES DEFINE_SYMBOL "")  # whose absence lets others reuse its precompiled headers
dpb_sources(dp_bench_policy policy policy/networks policy/objectives policy/vision policy/kernels)
# LibTorch brings fmt's headers in another version than the system's library: ours are found first.
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/generated/fmt_first")
get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(CREATE_LINK "${fmt_headers}/fmt" "${CMAKE_BINARY_DIR}/generated/fmt_first/fmt" SYMBOLIC)
target_include_directories(dp_bench_policy SYSTEM BEFORE PUBLIC "${CMAKE_BINARY_DIR}/generated/fmt_first")
target_include_directories(dp_bench_policy SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
target_link_libraries(dp_bench_policy PUBLIC dp_bench_core fmt::fmt ${TORCH_LIBRARIES}
                                      PRIVATE nlohmann_json::nlohmann_json)
target_precompile_headers(dp_bench_policy PRIVATE src/policy/precompiled.h)
if(DPB_TORCH_FLAVOUR STREQUAL "cuda")
  # others reuse the precompiled headers, which therefore know nothing of this definition
  set_source_files_properties(src/policy/repeated_work.cc PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON COMPILE_DEFINITIONS DPB_CUDA)
endif()

# The threads are LibTorch's: it brings the same OpenMP runtime. Neither of the other two options changes a
# value; without them the loops are vectorised for AVX-512 alone.
find_package(OpenMP REQUIRED COMPONENTS CXX)
target_link_options(dp_bench_policy PRIVATE ${OpenMP_CXX_FLAGS})  # the path of a library would enter the run path
set(loop_options "-O3;${OpenMP_CXX_FLAGS};-fno-math-errno;-fno-trapping-math")
file(GLOB loop_files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/policy/kernels/*_kernels.cc")
set_source_files_properties(${loop_files} PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${loop_options}")
set_source_files_properties(src/policy/row_groups.cc PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${OpenMP_CXX_FLAGS}")
# products add with fused multiply-adds on every processor that has them
file(GLOB tile_files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/policy/kernels/*_tiles.cc")
set_source_files_properties(${tile_files} PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${loop_options};-ffp-contract=fast")

dpb_folder(graph LINK dp_bench_policy dp_bench_control)
dpb_folder(planner LINK dp_bench_policy dp_bench_graph dp_bench_run dp_bench_control)

# Opened only for policy.backend=openvino.
if(OpenVINO_FOUND)
  add_library(dp_bench_openvino MODULE)
  dpb_sources(dp_bench_openvino graph/openvino)
  dpb_harness_library(dp_bench_openvino)
  set_target_properties(dp_bench_openvino PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(dp_bench_openvino PRIVATE dp_bench_policy openvino::runtime)
  dpb_reuse_torch_headers(dp_bench_openvino)
  add_dependencies(dp_bench_planner dp_bench_openvino)
endif()

# The deployment API, for programs of users: exports only what dp_bench/deploy.h declares.
add_library(dp_bench_deploy SHARED)
dpb_harness_library(dp_bench_deploy)
target_compile_options(dp_bench_deploy PRIVATE -O1)
dpb_export_own_names(dp_bench_deploy)
dpb_sources(dp_bench_deploy deploy)
set_target_properties(dp_bench_deploy PROPERTIES CXX_VISIBILITY_PRESET hidden DEFINE_SYMBOL "")
target_link_libraries(dp_bench_deploy PUBLIC dp_bench_core PRIVATE dp_bench_planner)
target_precompile_headers(dp_bench_deploy REUSE_FROM dp_bench_policy)

dpb_folder(train LINK dp_bench_policy dp_bench_planner dp_bench_host)
dpb_folder(interop LINK dp_bench_policy dp_bench_planner)
dpb_folder(task LINK dp_bench_policy dp_bench_train dp_bench_interop)
dpb_folder(evaluate LINK dp_bench_policy dp_bench_task)
dpb_folder(diagnose LINK dp_bench_policy dp_bench_task)
# the texts of the hypotheses are compiled in
set(hypotheses "${CMAKE_CURRENT_SOURCE_DIR}/src/diagnose/hypotheses.json")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${hypotheses}")
file(READ "${hypotheses}" DPB_HYPOTHESES)
configure_file(src/diagnose/hypotheses.cc.in "${CMAKE_CURRENT_BINARY_DIR}/hypotheses.cc" @ONLY)
target_sources(dp_bench_diagnose PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/hypotheses.cc")
dpb_folder(inspect LINK dp_bench_policy dp_bench_diagnose)
dpb_folder(profile LINK dp_bench_policy dp_bench_inspect)

# Everything but the verbs, for tests.
add_library(dp_bench_all INTERFACE)
target_link_libraries(dp_bench_all INTERFACE dp_bench_evaluate dp_bench_profile)

# What the program becomes for the other verbs.
add_executable(dp_bench_torch)
dpb_sources(dp_bench_torch app)
set_target_properties(dp_bench_torch PROPERTIES UNITY_BUILD_MODE GROUP)
target_link_libraries(dp_bench_torch PRIVATE dp_bench_light dp_bench_all dp_bench_serve dp_bench_window dpb_compile_options)
dpb_reuse_torch_headers(dp_bench_torch)
add_dependencies(dp_bench_program dp_bench_torch)
