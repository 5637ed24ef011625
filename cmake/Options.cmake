# Reads config.cmake as TVM does: the build folder's copy wins over the source
# folder's. What was given as -DOPTION=VALUE is in the cache already and wins
# over both.
if(EXISTS ${PROJECT_BINARY_DIR}/config.cmake)
  set(NODEWISE_CONFIG ${PROJECT_BINARY_DIR}/config.cmake)
else()
  set(NODEWISE_CONFIG ${PROJECT_SOURCE_DIR}/config.cmake)
endif()
message(STATUS "nodewise: options from ${NODEWISE_CONFIG}")

set(NODEWISE_OPTION_NAMES USE_PROFILER USE_CONTRIB USE_COMMAND
  USE_ONNX USE_ONEDNN USE_LAB USE_PYTHON INSTALL_TVM_LINK)
foreach(name ${NODEWISE_OPTION_NAMES})
  if(DEFINED CACHE{${name}})
    set(given_${name} $CACHE{${name}})
  endif()
endforeach()
include(${NODEWISE_CONFIG})
foreach(name ${NODEWISE_OPTION_NAMES})
  if(DEFINED given_${name})
    set(${name} ${given_${name}})
  endif()
  message(STATUS "nodewise: ${name} ${${name}}")
endforeach()

if(USE_COMMAND AND NOT USE_CONTRIB)
  message(FATAL_ERROR "nodewise: USE_COMMAND needs USE_CONTRIB (set both OFF for "
    "the runtime library alone)")
endif()

# It tests operators, and has debug executors run them.
if(NOT (USE_ONNX AND USE_PROFILER))
  set(USE_LAB OFF)
endif()

if(USE_PYTHON AND NOT (USE_CONTRIB AND USE_PROFILER))
  message(FATAL_ERROR "nodewise: USE_PYTHON needs USE_CONTRIB and USE_PROFILER")
endif()

# For those who work on nodewise itself.
option(NODEWISE_TESTS "Build the tests and benchmarks" OFF)
option(NODEWISE_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(NODEWISE_TOGETHER 10 CACHE STRING
  "How many files of a folder are compiled together; 1: each alone")
set(NODEWISE_ONEDNN3 "" CACHE PATH
  "A folder with include/ and lib/ of oneDNN 3, to test that version too")
set(NODEWISE_SANITIZE "" CACHE STRING
  "Sanitizers for everything, e.g. address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
