# Kernels of oneDNN. Its packages differ in what they install for CMake, so the
# header and the library are looked for by hand.

# nodewise_add_onednn(TARGET [ROOT]): the library TARGET with the oneDNN below
# the folder ROOT, or that of the system.
function(nodewise_add_onednn target)
  set(where)
  if(ARGC GREATER 1)
    set(where PATHS ${ARGV1} NO_DEFAULT_PATH)
  endif()
  find_path(${target}_INCLUDE oneapi/dnnl/dnnl.hpp ${where}
    PATH_SUFFIXES include REQUIRED)
  find_library(${target}_LIBRARY dnnl ${where} PATH_SUFFIXES lib REQUIRED)
  file(STRINGS ${${target}_INCLUDE}/oneapi/dnnl/dnnl_version.h version
    REGEX "DNNL_VERSION_MAJOR +[0-9]+")
  string(REGEX REPLACE ".* ([0-9]+)$" "\\1" major "${version}")
  message(STATUS "nodewise: oneDNN ${major} in ${${target}_LIBRARY}")
  add_library(${target} STATIC EXCLUDE_FROM_ALL
    onednn/activation.cc
    onednn/backward.cc
    onednn/call.cc
    onednn/windows.cc
    onednn/moves.cc
    onednn/norms.cc
    onednn/omp_team.cc
    onednn/onednn_api.cc
    onednn/onednn_ops.cc
    onednn/onednn_threads.cc
    onednn/products.cc
    onednn/program.cc
    onednn/quantized.cc
    onednn/resize.cc)
  target_include_directories(${target} SYSTEM PRIVATE ${${target}_INCLUDE})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  # g++'s OpenMP runtime by its file name: clang would link its own.
  target_link_libraries(${target}
    PUBLIC nodewise_contrib
    PRIVATE $<BUILD_INTERFACE:nodewise_options> fmt::fmt ${${target}_LIBRARY} -l:libgomp.so.1)
  nodewise_precompile(${target})
  nodewise_compile_together(${target})
endfunction()

if(USE_ONEDNN)
  nodewise_add_onednn(nodewise_onednn)
else()
  add_library(nodewise_onednn STATIC EXCLUDE_FROM_ALL
    onednn/onednn_absent.cc
    onednn/onednn_threads.cc)
  target_include_directories(nodewise_onednn PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(nodewise_onednn
    PUBLIC nodewise_contrib
    PRIVATE $<BUILD_INTERFACE:nodewise_options> fmt::fmt)
  nodewise_precompile(nodewise_onednn)
  nodewise_compile_together(nodewise_onednn)
endif()
# Another version beside it, for the tests of what differs between versions.
if(NODEWISE_ONEDNN3)
  nodewise_add_onednn(nodewise_onednn3 ${NODEWISE_ONEDNN3})
endif()
