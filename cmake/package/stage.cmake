# CPack runs this between installing and packing.
cmake_policy(VERSION 3.22)
# The links to the libraries of this machine stay out of the packages.
file(GLOB_RECURSE links LIST_DIRECTORIES true "${CPACK_TEMPORARY_DIRECTORY}/*/external")
list(FILTER links INCLUDE REGEX "/${CPACK_DPB_EXTERNAL}$")
file(REMOVE_RECURSE ${links})
# The Debian package also has /usr/bin/dp_bench.
if(CPACK_GENERATOR STREQUAL "DEB")
  file(COPY "${CPACK_DPB_LAUNCHER}" DESTINATION "${CPACK_TEMPORARY_DIRECTORY}/usr/bin"
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endif()
