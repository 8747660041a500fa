# Finds MuJoCo: a release unpacked at MUJOCO_DIR (variable or environment) wins over the wheel in .venv.
# Defines mujoco::mujoco.
file(GLOB venv_mujoco "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/mujoco*")
set(mujoco_hints ${MUJOCO_DIR} $ENV{MUJOCO_DIR})
find_path(MuJoCo_INCLUDE_DIR mujoco/mujoco.h HINTS ${mujoco_hints} ${venv_mujoco} PATH_SUFFIXES include)
find_library(MuJoCo_LIBRARY NAMES mujoco libmujoco.so.4.0.0 HINTS ${mujoco_hints} ${venv_mujoco} PATH_SUFFIXES lib)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MuJoCo REQUIRED_VARS MuJoCo_LIBRARY MuJoCo_INCLUDE_DIR)
if(MuJoCo_FOUND AND NOT TARGET mujoco::mujoco)
  add_library(mujoco::mujoco SHARED IMPORTED GLOBAL)
  set_target_properties(mujoco::mujoco PROPERTIES
    IMPORTED_LOCATION "${MuJoCo_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${MuJoCo_INCLUDE_DIR}")
endif()
