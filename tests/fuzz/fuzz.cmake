# The libFuzzer targets, one executable NAME_fuzz for each NAME_fuzz.cc here.
# Its seeds are in corpus/NAME, its dictionary, if any, is NAME.dict.
if(NODEWISE_FUZZ)
  # The fuzzer sees only code that is compiled for it, and all targets that use
  # the precompiled headers must be compiled as these are.
  foreach(library
      nodewise_precompiled nodewise_runtime nodewise_contrib nodewise_ops
      nodewise_passes nodewise_onednn nodewise_kernels nodewise_locate
      nodewise_autotest nodewise_demo nodewise_gradient nodewise_layers
      nodewise_planter nodewise_zoo
      nodewise_precision nodewise_session nodewise_diagnose nodewise_report)
    if(TARGET ${library})
      target_compile_options(${library} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  endforeach()

  # clang and the sanitizers need twice as long for them with -O1, and models
  # are not run here, only read.
  if(TARGET nodewise_ops)
    target_compile_options(nodewise_ops PRIVATE -O0)
    # What is precompiled is so for -O1.
    set_target_properties(nodewise_ops PROPERTIES
      DISABLE_PRECOMPILE_HEADERS ON)
  endif()

  function(nodewise_add_fuzz_target name)
    add_executable(${name}_fuzz fuzz/${name}_fuzz.cc fuzz/memory_limit.cc)
    target_include_directories(${name}_fuzz PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name}_fuzz PRIVATE nodewise_options ${ARGN}
      nodewise_runtime absl::strings fmt::fmt)
  endfunction()

  nodewise_add_fuzz_target(dump)
  nodewise_add_fuzz_target(elf)
  nodewise_add_fuzz_target(graph_json)
  nodewise_add_fuzz_target(library_bin)
  nodewise_add_fuzz_target(module_blob)
  nodewise_add_fuzz_target(params)
  if(TARGET nodewise_contrib)
    find_package(ZLIB REQUIRED)
    nodewise_add_fuzz_target(network_text nodewise_contrib)
    nodewise_add_fuzz_target(npy nodewise_contrib)
    nodewise_add_fuzz_target(npz nodewise_contrib ZLIB::ZLIB)
    nodewise_add_fuzz_target(tensor_proto nodewise_contrib)
  endif()
  if(TARGET nodewise_onnx_proto)
    nodewise_add_fuzz_target(onnx nodewise_ops)
  endif()
  if(TARGET nodewise_report)
    nodewise_add_fuzz_target(archive nodewise_report)
  endif()

  # Whole commands: all of the command but its main().
  if(USE_ONNX AND USE_PROFILER AND TARGET nodewise)
    find_package(CLI11 REQUIRED)
    get_target_property(sources nodewise SOURCES)
    get_target_property(libraries nodewise LINK_LIBRARIES)
    get_target_property(definitions nodewise COMPILE_DEFINITIONS)
    list(FILTER sources EXCLUDE REGEX "main\\.cc$")
    list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/apps/)
    add_library(nodewise_commands STATIC EXCLUDE_FROM_ALL
      ${sources} fuzz/command_run.cc)
    target_include_directories(nodewise_commands PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_definitions(nodewise_commands PRIVATE ${definitions})
    target_compile_options(nodewise_commands PRIVATE
      -fsanitize=fuzzer-no-link)
    target_link_libraries(nodewise_commands PUBLIC ${libraries})
    nodewise_precompile(nodewise_commands)
    nodewise_compile_together(nodewise_commands)
    foreach(command align case compare convert replay)
      nodewise_add_fuzz_target(${command}_command nodewise_commands)
    endforeach()
  endif()
endif()
