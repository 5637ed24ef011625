# `find_package(nodewise)` after `cmake --install`: nodewise::runtime is the
# library, nodewise::tvm_host what a C++ program written for TVM links instead
# of tvm_runtime.
include(CMakePackageConfigHelpers)

install(TARGETS nodewise_runtime EXPORT nodewise_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY runtime/include/nodewise
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(USE_COMMAND)
  install(TARGETS nodewise RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET network-debugger)
    install(TARGETS network-debugger
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endif()

set(tvm_host_dir ${CMAKE_INSTALL_DATADIR}/nodewise/tvm_host)
install(DIRECTORY apps/tvm_host/ DESTINATION ${tvm_host_dir})

# A link by TVM's name, for what is linked against it or looks for it. A TVM
# that is installed there already stays.
if(INSTALL_TVM_LINK)
  install(CODE "
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}\")
    set(link \"\${folder}/libtvm_runtime.so\")
    set(target libnodewise_runtime.so)
    if(IS_SYMLINK \"\${link}\")
      file(READ_SYMLINK \"\${link}\" target)
    elseif(EXISTS \"\${link}\")
      set(target itself)
    endif()
    if(NOT target STREQUAL libnodewise_runtime.so)
      message(STATUS \"Kept: \${link} (\${target}), which is not ours\")
    else()
      message(STATUS \"Installing: \${link}\")
      file(CREATE_LINK libnodewise_runtime.so \"\${link}\" SYMBOLIC)
    endif()")
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nodewise)
install(EXPORT nodewise_targets NAMESPACE nodewise:: DESTINATION ${package_dir})
configure_package_config_file(cmake/nodewise-config.cmake.in
  ${CMAKE_BINARY_DIR}/nodewise-config.cmake
  INSTALL_DESTINATION ${package_dir}
  PATH_VARS tvm_host_dir)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/nodewise-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/nodewise-config.cmake
  ${CMAKE_BINARY_DIR}/nodewise-config-version.cmake
  DESTINATION ${package_dir})
