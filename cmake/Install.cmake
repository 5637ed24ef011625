# `find_package(nodewise)` after `cmake --install`; the target is
# nodewise::runtime.
include(CMakePackageConfigHelpers)

install(TARGETS nodewise_runtime EXPORT nodewise_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY runtime/include/nodewise
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(USE_COMMAND)
  install(TARGETS nodewise RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nodewise)
install(EXPORT nodewise_targets NAMESPACE nodewise:: DESTINATION ${package_dir})
configure_package_config_file(cmake/nodewise-config.cmake.in
  ${CMAKE_BINARY_DIR}/nodewise-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/nodewise-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/nodewise-config.cmake
  ${CMAKE_BINARY_DIR}/nodewise-config-version.cmake
  DESTINATION ${package_dir})
