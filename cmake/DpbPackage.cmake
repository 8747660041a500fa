# A tarball and a Debian package of what DpbInstall.cmake installs: scripts/package.sh.
#
# The tarball can be unpacked anywhere. The Debian package is the same tree in /opt/dp_bench, and /usr/bin/dp_bench.
# LibTorch, MuJoCo and Arrow are not in it; bin/dp_bench-libraries brings them. apt resolves everything else.
set(CPACK_DPB_DEBIAN_PREFIX "/opt/dp_bench")

set(package_scripts "${CMAKE_BINARY_DIR}/package")
configure_file(cmake/package/launcher.in "${package_scripts}/dp_bench" @ONLY)
configure_file(cmake/package/postinst.in "${package_scripts}/postinst" @ONLY)
configure_file(cmake/package/prerm.in "${package_scripts}/prerm" @ONLY)

set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_PACKAGE_NAME "dp-bench")
set(CPACK_PACKAGE_CONTACT "dp_bench maintainers <dp_bench@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Train, roll out and measure Diffusion Policies")
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION "science")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_BINARY_DIR}/harness" ${DPB_EXTERNAL_FOLDERS})
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libegl1, libegl-mesa0, libgl1-mesa-dri, fonts-dejavu-core")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-pip")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${package_scripts}/postinst;${package_scripts}/prerm")
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/package/prefix.cmake")
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/package/stage.cmake")
set(CPACK_DPB_LAUNCHER "${package_scripts}/dp_bench")
set(CPACK_DPB_EXTERNAL "${CMAKE_INSTALL_LIBDIR}/dp_bench/external")
include(CPack)
