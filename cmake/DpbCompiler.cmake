# Language, warnings and sanitizers for our own code; third-party headers are SYSTEM.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

# Each compilation takes 5 s for the templates of the headers before it reaches our own code. Files that are compiled
# together share that time.
set(CMAKE_UNITY_BUILD ${DPB_UNITY_BUILD})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# CMake's default is -O3, which takes longer and makes only numeric loops faster: they ask for it where they are.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# ccache stores files with precompiled headers only with these two settings. With the build presets' CCACHE_DEPEND it compiles
# what it does not have without preprocessing it first: half a second less for each file from nothing.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE}")
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

# GCC looks for garbage again and again in the memory that the precompiled headers fill: a tenth of its time. Without, a
# compilation takes 7 to 12 % more memory, at most 2 GB.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=2000000>)

# With contraction, the bits of a simulation would depend on whether the compiler finds an FMA.
add_library(dpb_compile_options INTERFACE)
target_compile_options(dpb_compile_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # by default, clang also warns about names that occur twice in files compiled together
  $<$<CXX_COMPILER_ID:Clang>:-Wno-shadow;-Wno-sign-conversion;-Wno-implicit-int-float-conversion> -Werror -ffp-contract=off)

if(DPB_SANITIZE)
  add_compile_options(-fsanitize=${DPB_SANITIZE} -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # the GCC manual warns of false alarms in instrumented code; -Wno-tsan: Boost.Asio has a fence that this sanitizer ignores
    add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-mismatched-new-delete
                        -Wno-tsan)
  endif()
  add_link_options(-fsanitize=${DPB_SANITIZE})
endif()

# Precompiled headers for a target: LibTorch's, or those that nearly every other file uses. The compiler accepts them
# only with the same options, so programs are compiled with -fPIC too, and all users of LibTorch's with -O1: their work
# is done inside LibTorch.
function(dpb_reuse_torch_headers target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC -O1)
  target_precompile_headers(${target} REUSE_FROM dp_bench_policy)
endfunction()

function(dpb_reuse_precompiled target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM dpb_precompiled)
endfunction()
