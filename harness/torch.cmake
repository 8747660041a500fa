# What needs LibTorch. Its headers cost seconds in every file, so files are compiled together, and LibTorch's
# precompiled headers hold only what most of these files use.
add_library(dp_bench_policy SHARED)
dpb_harness_library(dp_bench_policy)
dpb_export_own_names(dp_bench_policy)
set_target_properties(dp_bench_policy PROPERTIES DEFINE_SYMBOL "")  # whose absence lets others reuse its precompiled headers
dpb_sources(dp_bench_policy core ONLY device.cc)
dpb_sources(dp_bench_policy plugin ONLY guarded_policy.cc)
dpb_sources(dp_bench_policy policy)
dpb_sources(dp_bench_policy policy/networks)
dpb_sources(dp_bench_policy policy/vision)
dpb_sources(dp_bench_policy policy/kernels)
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
set(loop_options "${OpenMP_CXX_FLAGS};-fno-math-errno;-fno-trapping-math")
set_source_files_properties(
  src/policy/kernels/attention_kernels.cc src/policy/networks/gaussian_field.cc src/policy/kernels/norm_kernels.cc
  src/policy/kernels/token_kernels.cc
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${loop_options}")
# products add with fused multiply-adds on every processor that has them
set_source_files_properties(src/policy/kernels/product_kernels.cc PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${loop_options};-ffp-contract=fast")

add_library(dp_bench_train STATIC)
dpb_harness_library(dp_bench_train)
dpb_sources(dp_bench_train run ONLY ${torch_of_run})
dpb_sources(dp_bench_train train ONLY ${torch_of_train})
dpb_sources(dp_bench_train rollout ONLY ${torch_of_rollout})
dpb_sources(dp_bench_train experiment)
dpb_sources(dp_bench_train inspect ONLY ${torch_of_inspect})
target_link_libraries(dp_bench_train PUBLIC dp_bench_policy dp_bench_host)
target_precompile_headers(dp_bench_train REUSE_FROM dp_bench_policy)

add_executable(dp_bench_program)
set_target_properties(dp_bench_program PROPERTIES OUTPUT_NAME dp_bench)
dpb_sources(dp_bench_program app)
target_link_libraries(dp_bench_program PRIVATE dp_bench_train dp_bench_ranks dp_bench_view CLI11::CLI11 dpb_compile_options)
dpb_reuse_torch_headers(dp_bench_program)
add_dependencies(dp_bench_program dp_bench_env_worker)
