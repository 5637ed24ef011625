# What looks for faults where none has been met yet: USE_LAB OFF leaves it out.

# Plants a known fault in a graph and its library.
add_library(nodewise_planter STATIC EXCLUDE_FROM_ALL
  lab/planter/region_faults.cc
  lab/planter/call_faults.cc
  lab/planter/plan_faults.cc
  lab/planter/planter.cc
  lab/planter/region_trial.cc
  lab/planter/spoiling.cc
)
target_link_libraries(nodewise_planter
  PUBLIC nodewise_contrib
  PRIVATE $<BUILD_INTERFACE:nodewise_options>
          $<BUILD_INTERFACE:nodewise_no_loops> absl::strings fmt::fmt)
target_include_directories(nodewise_planter
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/lab/include>
  PRIVATE ${PROJECT_SOURCE_DIR})
nodewise_precompile(nodewise_planter)
nodewise_compile_together(nodewise_planter)

# Networks of the usual kinds, made in code.
add_library(nodewise_zoo STATIC EXCLUDE_FROM_ALL lab/zoo/zoo_networks.cc)
target_link_libraries(nodewise_zoo
  PUBLIC nodewise_demo nodewise_passes nodewise_precision
  PRIVATE $<BUILD_INTERFACE:nodewise_options> absl::strings fmt::fmt)
target_include_directories(nodewise_zoo
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/lab/include>
  PRIVATE ${PROJECT_SOURCE_DIR})
nodewise_precompile(nodewise_zoo)

# Gradients of networks, as networks.
add_library(nodewise_gradient STATIC EXCLUDE_FROM_ALL
  lab/gradient/elementwise_rules.cc
  lab/gradient/control_rules.cc
  lab/gradient/fourier_rules.cc
  lab/gradient/gradient.cc
  lab/gradient/move_rules.cc
  lab/gradient/sum_rules.cc
  lab/gradient/image_rules.cc
  lab/gradient/sequence_rules.cc
  lab/gradient/window_rules.cc
  lab/gradient/writer.cc
)
target_link_libraries(nodewise_gradient
  PUBLIC nodewise_ops nodewise_precision
  PRIVATE $<BUILD_INTERFACE:nodewise_options> absl::strings fmt::fmt)
target_include_directories(nodewise_gradient
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/lab/include>
  PRIVATE ${PROJECT_SOURCE_DIR})
nodewise_precompile(nodewise_gradient)
nodewise_compile_together(nodewise_gradient)

# Random tests of operators against the reference.
add_library(nodewise_autotest STATIC EXCLUDE_FROM_ALL
  lab/autotest/adapter_report.cc
  lab/autotest/autotest_report.cc
  lab/autotest/autotest_run.cc
  lab/autotest/candidates/candidate.cc
  lab/autotest/candidates/candidate_list.cc
  lab/autotest/case_verdict.cc
  lab/autotest/draw/choices.cc
  lab/autotest/spaces/classic_spaces.cc
  lab/autotest/draw/configuration.cc
  lab/autotest/draw/smaller_case.cc
  lab/autotest/dual/dual_program.cc
  lab/autotest/spaces/fill_spaces.cc
  lab/autotest/finding_folder.cc
  lab/autotest/candidates/foreign_candidate.cc
  lab/autotest/draw/generator.cc
  lab/autotest/candidates/guarded_candidate.cc
  lab/autotest/spaces/image_spaces.cc
  lab/autotest/check_adapter.cc
  lab/autotest/learn_deviations.cc
  lab/autotest/spaces/math_spaces.cc
  lab/autotest/networks/network_mutation.cc
  lab/autotest/networks/network_builder.cc
  lab/autotest/networks/backward_case.cc
  lab/autotest/networks/case_network.cc
  lab/autotest/networks/network_bodies.cc
  lab/autotest/networks/network_patterns.cc
  lab/autotest/networks/network_draw.cc
  lab/autotest/networks/network_scope.cc
  lab/autotest/spaces/pointwise_spaces.cc
  lab/autotest/spaces/product_spaces.cc
  lab/autotest/spaces/reduce_spaces.cc
  lab/autotest/spaces/sequence_spaces.cc
  lab/autotest/spaces/move_spaces.cc
  lab/autotest/spaces/operator_space.cc
  lab/autotest/draw/shrink_case.cc
  lab/autotest/draw/tensor_draw.cc
  lab/autotest/spaces/window_spaces.cc
)
target_link_libraries(nodewise_autotest
  PUBLIC nodewise_kernels nodewise_locate nodewise_gradient nodewise_passes
         nodewise_report
  PRIVATE $<BUILD_INTERFACE:nodewise_options>
          $<BUILD_INTERFACE:nodewise_no_loops> absl::strings fmt::fmt)
target_include_directories(nodewise_autotest
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/lab/include>
  PRIVATE ${PROJECT_SOURCE_DIR})
nodewise_precompile(nodewise_autotest)
nodewise_compile_together(nodewise_autotest)
