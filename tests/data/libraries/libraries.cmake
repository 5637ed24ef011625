# The libraries that tests/ loads, in ${CMAKE_CURRENT_BINARY_DIR}/libraries, and
# the blobs inside them, in libraries/blobs. One line each below; README.md says
# what each is for.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(NODEWISE_TEST_LIBRARY_SOURCES ${CMAKE_CURRENT_LIST_DIR})
set(NODEWISE_TEST_LIBRARY_FOLDER ${CMAKE_CURRENT_BINARY_DIR}/libraries)
file(MAKE_DIRECTORY ${NODEWISE_TEST_LIBRARY_FOLDER}/blobs)
add_custom_target(nodewise_test_libraries)

# nodewise_test_library(NAME SOURCE.c [BLOB case [SYMBOL name]] [DEFINES ...])
function(nodewise_test_library name source)
  cmake_parse_arguments(arg "" "BLOB;SYMBOL" "DEFINES" ${ARGN})
  set(sources ${NODEWISE_TEST_LIBRARY_SOURCES}/${source})
  if(arg_BLOB)
    if(NOT arg_SYMBOL)
      set(arg_SYMBOL __tvm_dev_mblob)
    endif()
    set(base ${NODEWISE_TEST_LIBRARY_FOLDER}/blobs/${name})
    set(script ${NODEWISE_TEST_LIBRARY_SOURCES}/make_blob.py)
    set(graph ${NODEWISE_TEST_LIBRARY_SOURCES}/add_graph.json)
    add_custom_command(OUTPUT ${base}.c ${base}.bin
      COMMAND Python3::Interpreter ${script} ${arg_BLOB} ${arg_SYMBOL} ${graph}
              ${base}.c ${base}.bin
      DEPENDS ${script} ${graph} VERBATIM)
    list(APPEND sources ${base}.c)
  endif()
  set(target nodewise_test_library_${name})
  # A module may leave symbols for the process to define, as models do.
  add_library(${target} MODULE ${sources})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${NODEWISE_TEST_LIBRARY_FOLDER}
    C_STANDARD 11 C_EXTENSIONS OFF)
  target_include_directories(${target} PRIVATE
    ${PROJECT_SOURCE_DIR}/runtime/include
    $<TARGET_PROPERTY:dlpack::dlpack,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
  target_compile_definitions(${target} PRIVATE ${arg_DEFINES})
  target_link_libraries(${target} PRIVATE m)
  add_dependencies(nodewise_test_libraries ${target})
endfunction()

nodewise_test_library(add_llvm add_llvm.c)
nodewise_test_library(add_c add_c.c)
nodewise_test_library(workspace_llvm workspace_llvm.c)
nodewise_test_library(parallel_llvm parallel_llvm.c)
nodewise_test_library(closure_llvm closure_llvm.c)
nodewise_test_library(closure_c closure_c.c)
nodewise_test_library(split split.c)
nodewise_test_library(returns returns.c)
nodewise_test_library(main_llvm main_llvm.c)
nodewise_test_library(main_c main_c.c)
nodewise_test_library(three_parameters three_parameters.c)
nodewise_test_library(linked_params linked_params.c)
nodewise_test_library(run_once run_once.c)
nodewise_test_library(half half.c)
nodewise_test_library(unknown_pointer unknown_pointer.c)
nodewise_test_library(stray_names stray_names.c)
nodewise_test_library(stray_constant stray_constant.c
  DEFINES STRAY=__TVMFuncCall)
nodewise_test_library(stray_small stray_constant.c
  DEFINES STRAY=__tvm_ffi__library_ctx SMALL)
nodewise_test_library(uses_libm uses_libm.c)
nodewise_test_library(ffi_add ffi_add.c)
nodewise_test_library(ffi_add_now ffi_add.c)
target_link_options(nodewise_test_library_ffi_add_now PRIVATE -Wl,-z,now)
nodewise_test_library(ffi_add_22 ffi_add.c DEFINES FFI_ERA=22)
nodewise_test_library(ffi_add_21 ffi_add.c DEFINES FFI_ERA=21)
nodewise_test_library(ffi_workspace ffi_workspace.c)
nodewise_test_library(ffi_closure ffi_closure.c)
nodewise_test_library(ffi_closure_25 ffi_closure.c DEFINES FFI_ERA=25)
nodewise_test_library(ffi_closure_21 ffi_closure.c DEFINES FFI_ERA=21)
nodewise_test_library(ffi_closure_c ffi_closure.c
  DEFINES FFI_ERA=25 FFI_DIRECT)
nodewise_test_library(ffi_returns ffi_returns.c)
nodewise_test_library(ffi_bool ffi_bool.c)
nodewise_test_library(ffi_rival ffi_rival.c)
nodewise_test_library(ffi_unknown_pointer ffi_wants.c
  DEFINES FFI_WANTS_POINTER)
nodewise_test_library(ffi_unknown_name ffi_wants.c
  DEFINES FFI_WANTS=TVMFFIFuture)
nodewise_test_library(ffi_compiled_vm ffi_wants.c
  DEFINES FFI_WANTS=TVMBackendAnyListSetPackedArg)
nodewise_test_library(system_lib system_lib.c
  BLOB factory SYMBOL __tvm_dev_mblob DEFINES PREFIX= ANSWER=1)
nodewise_test_library(system_lib_prefixed system_lib.c
  BLOB factory SYMBOL net___tvm_dev_mblob DEFINES PREFIX=net_ ANSWER=2)

# C++ on TVM's headers, of three eras.
foreach(era 8 9 13)
  nodewise_test_library(plugin_${era} plugin.cc DEFINES TVM=${era})
  # It takes our modules for TVM's, whose layout they have.
  if(NODEWISE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(nodewise_test_library_plugin_${era} PRIVATE
      -fno-sanitize=vptr)
  endif()
endforeach()

# With a blob.
nodewise_test_library(factory add_llvm.c BLOB factory)
nodewise_test_library(factory_c add_c.c BLOB factory)
nodewise_test_library(factory_07 add_llvm.c BLOB factory_07)
nodewise_test_library(factory_cuda add_llvm.c BLOB factory_cuda)
nodewise_test_library(two_libs add_llvm.c BLOB two_libs)
nodewise_test_library(imports_06 device_host.c BLOB imports_06)
nodewise_test_library(opencl device_host.c BLOB opencl)
nodewise_test_library(const_loader init_symbol.c BLOB const_loader)
nodewise_test_library(metadata init_symbol.c BLOB metadata)
nodewise_test_library(unknown_kind add_llvm.c BLOB unknown_kind)
nodewise_test_library(child_out_of_range add_llvm.c BLOB child_out_of_range)
nodewise_test_library(circle add_llvm.c BLOB circle)
nodewise_test_library(truncated add_llvm.c BLOB truncated)
nodewise_test_library(too_long add_llvm.c BLOB too_long)
nodewise_test_library(no_modules add_llvm.c BLOB no_modules)
nodewise_test_library(vm_classic add_llvm.c BLOB vm_classic)
nodewise_test_library(vm_ffi ffi_add.c
  BLOB vm_ffi SYMBOL __tvm_ffi__library_bin)
nodewise_test_library(vm_ffi_21 ffi_add.c
  BLOB vm_ffi_21 SYMBOL __tvm_ffi_library_bin DEFINES FFI_ERA=21)
nodewise_test_library(vm_damaged ffi_add.c
  BLOB vm_damaged SYMBOL __tvm_ffi__library_bin)

# With OpenMP, where the compiler has it.
find_package(OpenMP COMPONENTS C)
if(OpenMP_C_FOUND)
  nodewise_test_library(openmp openmp.c)
  target_link_libraries(nodewise_test_library_openmp PRIVATE OpenMP::OpenMP_C)
endif()

# A host program in C, linked to nothing else of ours.
add_executable(nodewise_c_host ${CMAKE_CURRENT_SOURCE_DIR}/c_host/host.c)
target_link_libraries(nodewise_c_host PRIVATE nodewise_runtime)
set_target_properties(nodewise_c_host PROPERTIES
  C_STANDARD 99 C_EXTENSIONS OFF LINKER_LANGUAGE C)
target_compile_options(nodewise_c_host PRIVATE -Wall -Wextra -Werror -pedantic)
if(NODEWISE_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "Clang")
  # What the sanitizers of the library's C++ call is in no C program.
  set_target_properties(nodewise_c_host PROPERTIES LINKER_LANGUAGE CXX)
endif()
add_dependencies(nodewise_test_libraries nodewise_c_host)
