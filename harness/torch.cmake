# What needs LibTorch. Its headers cost seconds in every file, so files are compiled together, and LibTorch's
# precompiled headers hold only what most of these files use.
add_library(dp_bench_policy SHARED)
dpb_harness_library(dp_bench_policy)
target_compile_options(dp_bench_policy PRIVATE -O1)  # its work is done inside LibTorch and in loops that ask for -O3
dpb_export_own_names(dp_bench_policy)
set_target_properties(dp_bench_policy PROPERTIES DEFINE_SYMBOL "")  # whose absence lets others reuse its precompiled headers
dpb_sources(dp_bench_policy core ONLY device.cc)
dpb_sources(dp_bench_policy plugin ONLY guarded_policy.cc)
dpb_sources(dp_bench_policy policy)
dpb_sources(dp_bench_policy policy/networks)
dpb_sources(dp_bench_policy policy/objectives)
dpb_sources(dp_bench_policy policy/vision)
dpb_sources(dp_bench_policy policy/kernels)
# single files join the files of another room
set_source_files_properties(
  "${CMAKE_CURRENT_SOURCE_DIR}/src/core/device.cc" "${CMAKE_CURRENT_SOURCE_DIR}/src/plugin/guarded_policy.cc"
  PROPERTIES UNITY_GROUP policy)
# LibTorch brings fmt's headers in another version than the system's library: ours are found first.
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/generated/fmt_first")
get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(CREATE_LINK "${fmt_headers}/fmt" "${CMAKE_BINARY_DIR}/generated/fmt_first/fmt" SYMBOLIC)
target_include_directories(dp_bench_policy SYSTEM BEFORE PUBLIC "${CMAKE_BINARY_DIR}/generated/fmt_first")
target_include_directories(dp_bench_policy SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
target_link_libraries(dp_bench_policy PUBLIC dp_bench_core fmt::fmt ${TORCH_LIBRARIES}
                                      PRIVATE nlohmann_json::nlohmann_json)
target_precompile_headers(dp_bench_policy PRIVATE src/policy/precompiled.h)

# The threads are LibTorch's: it brings the same OpenMP runtime. Neither of the other two options changes a
# value; without them the loops are vectorised for AVX-512 alone.
find_package(OpenMP REQUIRED COMPONENTS CXX)
target_link_options(dp_bench_policy PRIVATE ${OpenMP_CXX_FLAGS})  # the path of a library would enter the run path
set(loop_options "-O3;${OpenMP_CXX_FLAGS};-fno-math-errno;-fno-trapping-math")
set_source_files_properties(
  src/policy/kernels/attention_kernels.cc src/policy/kernels/conv_kernels.cc src/policy/kernels/norm_kernels.cc
  src/policy/kernels/token_kernels.cc
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${loop_options}")
# products add with fused multiply-adds on every processor that has them
set_source_files_properties(src/policy/kernels/product_kernels.cc PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${loop_options};-ffp-contract=fast")

add_library(dp_bench_planner STATIC)
dpb_harness_library(dp_bench_planner)
target_compile_options(dp_bench_planner PRIVATE -O1)  # its work is done inside LibTorch
dpb_sources(dp_bench_planner graph)
dpb_sources(dp_bench_planner run ONLY ${planner_of_run})
dpb_sources(dp_bench_planner rollout ONLY ${planner_of_rollout})
set_target_properties(dp_bench_planner PROPERTIES CXX_VISIBILITY_PRESET hidden)
target_link_libraries(dp_bench_planner PUBLIC dp_bench_policy dp_bench_loop PRIVATE nlohmann_json::nlohmann_json)
target_precompile_headers(dp_bench_planner REUSE_FROM dp_bench_policy)

# Opened only for policy.backend=openvino.
if(OpenVINO_FOUND)
  add_library(dp_bench_openvino MODULE src/graph/openvino/openvino_runtime.cc)
  dpb_harness_library(dp_bench_openvino)
  set_target_properties(dp_bench_openvino PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(dp_bench_openvino PRIVATE dp_bench_policy openvino::runtime)
  add_dependencies(dp_bench_planner dp_bench_openvino)
endif()

add_library(dp_bench_deploy SHARED)
dpb_harness_library(dp_bench_deploy)
target_compile_options(dp_bench_deploy PRIVATE -O1)
dpb_export_own_names(dp_bench_deploy)
dpb_sources(dp_bench_deploy rollout ONLY controller.cc)
# hidden, so that of our own names only those of the API are exported
set_target_properties(dp_bench_deploy PROPERTIES CXX_VISIBILITY_PRESET hidden DEFINE_SYMBOL "")
target_link_libraries(dp_bench_deploy PUBLIC dp_bench_core PRIVATE dp_bench_planner)
target_precompile_headers(dp_bench_deploy REUSE_FROM dp_bench_policy)

add_library(dp_bench_train STATIC)
dpb_harness_library(dp_bench_train)
target_compile_options(dp_bench_train PRIVATE -O1)  # its work is done inside LibTorch
dpb_sources(dp_bench_train train ONLY ${torch_of_train})
dpb_sources(dp_bench_train rollout ONLY ${torch_of_rollout})
target_link_libraries(dp_bench_train PUBLIC dp_bench_policy dp_bench_planner dp_bench_host)
target_precompile_headers(dp_bench_train REUSE_FROM dp_bench_policy)
target_sources(dp_bench_train PRIVATE $<TARGET_OBJECTS:dp_bench_experiment>)

add_library(dp_bench_experiment OBJECT)
dpb_harness_library(dp_bench_experiment)
dpb_sources(dp_bench_experiment experiment)
dpb_sources(dp_bench_experiment inspect ONLY ${torch_of_inspect})
target_compile_options(dp_bench_experiment PRIVATE -O1)
target_link_libraries(dp_bench_experiment PUBLIC dp_bench_policy dp_bench_host)
target_precompile_headers(dp_bench_experiment REUSE_FROM dp_bench_policy)

# The verbs: those that need no LibTorch of their own are compiled without its headers.
set(torch_of_app bench.cc diagnose.cc doctor.cc failure.cc inspect.cc profile.cc train.cc view.cc)
add_library(dp_bench_verbs OBJECT)
dpb_harness_library(dp_bench_verbs)
dpb_sources(dp_bench_verbs app EXCEPT ${torch_of_app} main.cc)
target_compile_options(dp_bench_verbs PRIVATE -O1)
target_link_libraries(dp_bench_verbs PUBLIC dp_bench_train dp_bench_view dp_bench_ranks CLI11::CLI11)
dpb_reuse_precompiled(dp_bench_verbs)

add_executable(dp_bench_program src/app/main.cc $<TARGET_OBJECTS:dp_bench_verbs>)
set_target_properties(dp_bench_program PROPERTIES OUTPUT_NAME dp_bench UNITY_BUILD_MODE GROUP)
set_source_files_properties(src/app/main.cc PROPERTIES UNITY_GROUP app)
dpb_sources(dp_bench_program app ONLY ${torch_of_app})
target_compile_options(dp_bench_program PRIVATE -O1)
target_link_libraries(dp_bench_program PRIVATE dp_bench_train dp_bench_ranks dp_bench_view CLI11::CLI11 dpb_compile_options)
dpb_reuse_torch_headers(dp_bench_program)
add_dependencies(dp_bench_program dp_bench_env_worker)
