# All third-party dependencies in one place. scripts/setup.sh installs them. Paths in CMAKE_PREFIX_PATH or MUJOCO_DIR
# win over the local virtual environment.
find_package(Threads REQUIRED)
find_package(Boost 1.74 REQUIRED)           # DLL, Geometry, Math: headers
find_package(nlohmann_json 3.10 REQUIRED)
find_package(fmt 8 REQUIRED)
find_package(spdlog 1.9 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(box2d 2.4 REQUIRED)
find_package(OpenSSL REQUIRED)              # SHA-256
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libav REQUIRED IMPORTED_TARGET libavcodec libavformat libavutil libswscale)
pkg_check_modules(cairo REQUIRED IMPORTED_TARGET cairo cairo-ft freetype2)
pkg_check_modules(blosc REQUIRED IMPORTED_TARGET blosc)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(hdf5 REQUIRED IMPORTED_TARGET hdf5)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
find_path(DPB_MSGPACK_INCLUDE_DIR msgpack/v2/parse.hpp)  # the C++ headers, by a file that the C library lacks
if(NOT DPB_MSGPACK_INCLUDE_DIR)
  message(FATAL_ERROR "The headers of msgpack-cxx 3.3 or later are missing: install libmsgpack-cxx-dev (on Ubuntu 22.04 "
                      "libmsgpack-dev), or run scripts/setup.sh")
endif()
add_library(dpb_msgpack INTERFACE)
target_include_directories(dpb_msgpack SYSTEM INTERFACE "${DPB_MSGPACK_INCLUDE_DIR}")
target_compile_definitions(dpb_msgpack INTERFACE MSGPACK_NO_BOOST)
find_package(glfw3 3.3 REQUIRED)
find_package(MPI COMPONENTS C)              # optional: training over several processes
find_package(Arrow)                         # optional: LeRobot datasets
if(NOT Arrow_FOUND)
  message(STATUS "The dataset plugin lerobot is not built: it needs the pyarrow wheel; run scripts/setup.sh")
endif()

if(DPB_TESTS)
  find_package(GTest REQUIRED)
endif()
if(DPB_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

set(Torch_VERSION "none")
set(DPB_TORCH_FLAVOUR "none")
if(DPB_TORCH)
  file(GLOB venv_torch "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  find_package(Torch 2.6 REQUIRED HINTS ${venv_torch})
  if(TORCH_CUDA_LIBRARIES)
    set(DPB_TORCH_FLAVOUR "cuda")
  else()
    set(DPB_TORCH_FLAVOUR "cpu")
  endif()
  # optional: policy.backend=openvino
  file(GLOB venv_openvino "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/openvino/cmake")
  find_package(OpenVINO QUIET COMPONENTS Runtime HINTS ${venv_openvino})
  if(NOT OpenVINO_FOUND)
    message(STATUS "policy.backend=openvino is not built: it needs the openvino wheel; run scripts/setup.sh")
  endif()
endif()
