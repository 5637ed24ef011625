# nodewise_measure_locate plants faults, has them looked for and says how often
# that was right; see docs/measured.md.
add_executable(nodewise_measure_locate
  measure/case.cc
  measure/case_list.cc
  measure/children.cc
  measure/effect.cc
  measure/exact_effect.cc
  measure/fault_source.cc
  measure/fixture_case.cc
  measure/foreign_case.cc
  measure/held_out_epilogues.cc
  measure/held_out_faults.cc
  measure/held_out_memory.cc
  measure/held_out_region.cc
  measure/held_out_sums.cc
  measure/measure_main.cc
  measure/method.cc
  measure/node_tensors.cc
  measure/run_case.cc
  measure/subject.cc
  measure/summary.cc
  support/compiled_network.cc
  support/fixtures.cc
)
target_include_directories(nodewise_measure_locate PRIVATE
  ${PROJECT_SOURCE_DIR})
target_compile_definitions(nodewise_measure_locate PRIVATE
  NODEWISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_compile_options(nodewise_measure_locate PRIVATE
  $<IF:$<CONFIG:Debug>,-O0,-O1>)
target_link_libraries(nodewise_measure_locate PRIVATE
  nodewise_layers nodewise_planter nodewise_zoo nodewise_kernels nodewise_passes
  nodewise_precision   nodewise_runtime nodewise_options nlohmann_json::nlohmann_json
  absl::strings fmt::fmt Threads::Threads)
nodewise_precompile(nodewise_measure_locate)
nodewise_compile_together(nodewise_measure_locate)

# nodewise_planted_operators says which faults of operators random cases find.
add_executable(nodewise_planted_operators measure/planted_operators.cc)
target_include_directories(nodewise_planted_operators PRIVATE
  ${PROJECT_SOURCE_DIR})
target_link_libraries(nodewise_planted_operators PRIVATE
  nodewise_autotest nodewise_planter nodewise_kernels nodewise_runtime
  nodewise_options absl::strings fmt::fmt Threads::Threads)
nodewise_precompile(nodewise_planted_operators)

# nodewise_gradient_cases writes gradients for torch_gradients.py.
add_executable(nodewise_gradient_cases EXCLUDE_FROM_ALL
  measure/gradient_cases.cc)
target_include_directories(nodewise_gradient_cases PRIVATE
  ${PROJECT_SOURCE_DIR})
target_link_libraries(nodewise_gradient_cases PRIVATE
  nodewise_autotest nodewise_gradient nodewise_kernels nodewise_runtime
  nodewise_options nlohmann_json::nlohmann_json absl::strings fmt::fmt
  Threads::Threads)
nodewise_precompile(nodewise_gradient_cases)
