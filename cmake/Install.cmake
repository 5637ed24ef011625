# `find_package(nodewise)` after `cmake --install`: nodewise::runtime is the
# library, nodewise::tvm_host what a C++ program written for TVM links instead
# of tvm_runtime; with the components session, diagnose, report, autotest and
# others the libraries of contrib; nodewise_add_test() adds a test of a network.
# Projects that add this one as a folder have the same names.
include(CMakePackageConfigHelpers)
include(cmake/nodewise_add_test.cmake)

install(TARGETS nodewise_runtime EXPORT nodewise_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY runtime/include/nodewise
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(USE_COMMAND)
  # nodewise::command, which nodewise_add_test() runs.
  set_target_properties(nodewise PROPERTIES EXPORT_NAME command)
  add_executable(nodewise::command ALIAS nodewise)
  install(TARGETS nodewise EXPORT nodewise_targets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET network-debugger)
    install(TARGETS network-debugger
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endif()

# Which libraries there are depends on the options; the package says what is
# missing.
set(contrib_components)
if(USE_CONTRIB)
  list(APPEND contrib_components contrib session report)
  if(USE_ONNX)
    list(APPEND contrib_components ops onednn kernels passes precision
      onnx_proto)
  endif()
  if(USE_ONNX AND USE_PROFILER)
    list(APPEND contrib_components locate layers diagnose)
    if(USE_LAB)
      list(APPEND contrib_components demo zoo planter gradient autotest)
    endif()
  endif()
  foreach(component IN LISTS contrib_components)
    set_target_properties(nodewise_${component} PROPERTIES
      EXPORT_NAME ${component} EXCLUDE_FROM_ALL OFF)
    add_library(nodewise::${component} ALIAS nodewise_${component})
    install(TARGETS nodewise_${component} EXPORT nodewise_contrib_targets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endforeach()
  install(DIRECTORY contrib/include/nodewise
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  if(USE_LAB)
    install(DIRECTORY contrib/lab/include/nodewise
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
  install(FILES contrib/report/nodewise-1.schema.json docs/skill.md
    DESTINATION ${CMAKE_INSTALL_DATADIR}/nodewise)
endif()
add_library(nodewise::runtime ALIAS nodewise_runtime)

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
if(contrib_components)
  install(EXPORT nodewise_contrib_targets NAMESPACE nodewise::
    DESTINATION ${package_dir})
endif()
configure_package_config_file(cmake/nodewise-config.cmake.in
  ${PROJECT_BINARY_DIR}/nodewise-config.cmake
  INSTALL_DESTINATION ${package_dir}
  PATH_VARS tvm_host_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nodewise-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/nodewise-config.cmake
  ${PROJECT_BINARY_DIR}/nodewise-config-version.cmake
  cmake/nodewise_add_test.cmake
  DESTINATION ${package_dir})
