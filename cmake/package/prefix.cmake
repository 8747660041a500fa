# CPack reads this for each kind of package. The tarball has its files at the top, the Debian package in /opt.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX "${CPACK_DPB_DEBIAN_PREFIX}")
endif()
