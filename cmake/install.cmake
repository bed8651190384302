# cmake --install: the runtime library with its headers, the command, the Python package; how others
# find them (find_package(tenon), pkg-config); and a .deb of all of it (cpack -G DEB).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)
install(TARGETS tenon_runtime_shared EXPORT tenonTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set_target_properties(tenon_runtime_shared PROPERTIES EXPORT_NAME runtime)
install(EXPORT tenonTargets NAMESPACE tenon:: DESTINATION ${config_folder})
install(FILES runtime/tenon.h runtime/tenon.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenon)
if(TARGET tenon)
  install(TARGETS tenon tenon_worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY python/tenon DESTINATION lib/python3/dist-packages
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE PATTERN "_lib" EXCLUDE)

configure_package_config_file(cmake/tenonConfig.cmake.in ${PROJECT_BINARY_DIR}/tenonConfig.cmake
  INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tenonConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tenonConfig.cmake ${PROJECT_BINARY_DIR}/tenonConfigVersion.cmake
  cmake/tenon_embed.cmake DESTINATION ${config_folder})
# The .pc file is found wherever the tree is moved: it names folders from its own.
file(RELATIVE_PATH TENON_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/tenon.pc.in ${PROJECT_BINARY_DIR}/tenon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tenon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tenon)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR Tenon)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Superoptimizer for normalization + linear layers, and its runtime")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Tenon authors <tenon@localhost>")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-numpy")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
include(CPack)
