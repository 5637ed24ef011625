# nodewise_bench prints ratios of two things timed side by side; see ratio.h. It
# is built where it is run, and by `./dev test --full`.
find_package(benchmark REQUIRED)

# Kernels as TVM compiles them. Without folding, equal ones stay distinct.
add_library(bench_kernels MODULE EXCLUDE_FROM_ALL
  bench/dispatch_kernels.c
  bench/large_kernel.c
)
# Vectors for what reads or writes megabytes, as TVM compiles it.
set_source_files_properties(bench/large_kernel.c bench/read_pass.c
  PROPERTIES COMPILE_OPTIONS -O3)
target_include_directories(bench_kernels PRIVATE
  $<TARGET_PROPERTY:nodewise_runtime,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_options(bench_kernels PRIVATE -O2 -fno-ipa-icf)
set_target_properties(bench_kernels PROPERTIES PREFIX "")

# A library has one ABI for all its functions.
add_library(bench_ffi_kernels MODULE EXCLUDE_FROM_ALL
  bench/ffi_dispatch_kernels.c)
target_include_directories(bench_ffi_kernels PRIVATE
  $<TARGET_PROPERTY:nodewise_runtime,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_options(bench_ffi_kernels PRIVATE -O2 -fno-ipa-icf)
set_target_properties(bench_ffi_kernels PROPERTIES PREFIX "")

add_executable(nodewise_bench EXCLUDE_FROM_ALL
  bench/bench_main.cc
  bench/chain.cc
  bench/debug_bench.cc
  bench/debug_networks.cc
  bench/debug_sides.cc
  bench/dispatch_bench.cc
  bench/float_bench.cc
  bench/load_bench.cc
  bench/memory.cc
  bench/modern_bench.cc
  bench/parallel_bench.cc
  bench/parse_bench.cc
  bench/peer.cc
  bench/ratio.cc
  bench/read_pass.c
  bench/tvm_process.cc
  support/fixtures.cc
)
add_dependencies(nodewise_bench bench_kernels bench_ffi_kernels)
target_include_directories(nodewise_bench PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(nodewise_bench PRIVATE
  NODEWISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  NODEWISE_BENCH_KERNELS="$<TARGET_FILE:bench_kernels>"
  NODEWISE_BENCH_FFI_KERNELS="$<TARGET_FILE:bench_ffi_kernels>")
target_link_libraries(nodewise_bench PRIVATE nodewise_runtime nodewise_options
  absl::strings fmt::fmt benchmark::benchmark
  nlohmann_json::nlohmann_json Threads::Threads)

# The network debugger's part: what runs models, each in a process of its own as
# its peer is.
if(TARGET nodewise_contrib AND USE_ONNX)
  target_sources(nodewise_bench PRIVATE
    bench/compare_bench.cc
    bench/interpreter_bench.cc
    bench/locate_bench.cc
    bench/model_peers.cc
    bench/onednn_bench.cc
    bench/python_bench.cc
    bench/quiet_turns.cc
  )
  target_link_libraries(nodewise_bench PRIVATE nodewise_contrib
    nodewise_locate nodewise_kernels)
  if(USE_LAB)
    target_sources(nodewise_bench PRIVATE bench/autotest_bench.cc)
    target_link_libraries(nodewise_bench PRIVATE nodewise_autotest)
  endif()
  target_compile_definitions(nodewise_bench PRIVATE
    NODEWISE_BENCH_CONTRIB=1
    NODEWISE_BUILD_DIR="${PROJECT_BINARY_DIR}"
    NODEWISE_BENCH_COMMAND="$<TARGET_FILE:nodewise>"
    NODEWISE_BENCH_MODEL="$<TARGET_FILE:nodewise_bench_model>")
  if(USE_ONEDNN)
    target_compile_definitions(nodewise_bench PRIVATE NODEWISE_USE_ONEDNN)
  endif()
  add_executable(nodewise_bench_model EXCLUDE_FROM_ALL
    bench/memory.cc
    bench/model_child.cc
    bench/ratio.cc
  )
  target_include_directories(nodewise_bench_model PRIVATE
    ${PROJECT_SOURCE_DIR})
  target_link_libraries(nodewise_bench_model PRIVATE
    nodewise_locate nodewise_kernels
    nodewise_options absl::strings fmt::fmt Threads::Threads)
  add_dependencies(nodewise_bench nodewise nodewise_bench_model)
  if(TARGET nodewise_python)
    add_dependencies(nodewise_bench nodewise_python)
  endif()
endif()
