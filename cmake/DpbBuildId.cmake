# The fingerprint that must be identical in host and plugin: compiler, C++ ABI, sanitizer, the SDK headers themselves
# and, for policies, LibTorch. C++ types cross the plugin boundary only if it matches. build_id.h finds out about the
# compiler itself, because a plugin may be built with other options than the host.
file(GLOB_RECURSE DPB_SDK_HEADERS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/harness/include/dp_bench/*.h")
list(FILTER DPB_SDK_HEADERS EXCLUDE REGEX "/(deploy|load_env)\\.h$")  # for programs, not for plugins
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${DPB_SDK_HEADERS})
set(sdk_digest "")
foreach(header IN LISTS DPB_SDK_HEADERS)
  file(SHA256 "${header}" digest)
  string(APPEND sdk_digest "${digest}")
endforeach()
string(SHA256 sdk_digest "${sdk_digest}")
string(SUBSTRING "${sdk_digest}" 0 12 DPB_SDK_DIGEST)

configure_file("${CMAKE_CURRENT_LIST_DIR}/build_id.h.in"
               "${CMAKE_BINARY_DIR}/generated/dp_bench/build_id.h" @ONLY)
