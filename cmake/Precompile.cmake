# The headers that nearly every file includes, parsed once: half the time of a
# build. None of ours is among them, so that no edit compiles everything again.
# Files include what they use all the same: the preset `alone`, which
# `./dev test --full` builds, compiles without them.
set(NODEWISE_COMMON_HEADERS
  <algorithm>
  <cmath>
  <functional>
  <map>
  <memory>
  <optional>
  <set>
  <string>
  <string_view>
  <utility>
  <vector>
  <absl/status/statusor.h>
  <absl/types/span.h>
  <fmt/format.h>
)

# Each takes 100 MB, so the libraries share one. It has a target of its own,
# since those that share must be compiled with its definitions or more.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/precompiled.cc CONTENT "")
add_library(nodewise_precompiled OBJECT EXCLUDE_FROM_ALL
  ${PROJECT_BINARY_DIR}/generated/precompiled.cc)
target_link_libraries(nodewise_precompiled PRIVATE nodewise_options
  absl::statusor absl::span fmt::fmt)
target_precompile_headers(nodewise_precompiled PRIVATE
  ${NODEWISE_COMMON_HEADERS})

# nodewise_precompile(TARGET [HEADER...]); only an executable may have headers of
# its own, which are parsed for it alone. Others share, for which it must be
# compiled as libraries are.
function(nodewise_precompile target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE AND ARGN)
    target_precompile_headers(${target} PRIVATE
      ${NODEWISE_COMMON_HEADERS} ${ARGN})
    return()
  endif()
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM nodewise_precompiled)
endfunction()

# nodewise_compile_with(FILE OPTION...): a file with options of its own. It goes
# without precompiled headers: g++ would take some of the options that they were
# compiled with instead, and say nothing.
function(nodewise_compile_with file)
  set_source_files_properties(${file} PROPERTIES
    COMPILE_OPTIONS "${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
