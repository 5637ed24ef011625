# What looks for faults where none has been met yet: USE_LAB OFF leaves it out.

# Plants a known fault in a graph and its library.
add_library(nodewise_planter STATIC EXCLUDE_FROM_ALL
  lab/planter/region_faults.cc
  lab/planter/call_faults.cc
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
  lab/autotest/attention_spaces.cc
  lab/autotest/autotest_report.cc
  lab/autotest/autotest_run.cc
  lab/autotest/backward.cc
  lab/autotest/candidate.cc
  lab/autotest/candidate_list.cc
  lab/autotest/case_verdict.cc
  lab/autotest/choices.cc
  lab/autotest/classic_spaces.cc
  lab/autotest/compiled_finding.cc
  lab/autotest/configuration.cc
  lab/autotest/configuration_draw.cc
  lab/autotest/cotangents.cc
  lab/autotest/cut_case.cc
  lab/autotest/dual_attributes.cc
  lab/autotest/dual_case.cc
  lab/autotest/dual_gradient.cc
  lab/autotest/dual_object.cc
  lab/autotest/emitted_candidate.cc
  lab/autotest/fill_spaces.cc
  lab/autotest/finding_folder.cc
  lab/autotest/foreign_candidate.cc
  lab/autotest/generator.cc
  lab/autotest/guarded_candidate.cc
  lab/autotest/image_spaces.cc
  lab/autotest/index_spaces.cc
  lab/autotest/input_domain.cc
  lab/autotest/check_adapter.cc
  lab/autotest/check_report.cc
  lab/autotest/learn_deviations.cc
  lab/autotest/learned_report.cc
  lab/autotest/math_spaces.cc
  lab/autotest/model_list.cc
  lab/autotest/network_adapt.cc
  lab/autotest/network_bodies.cc
  lab/autotest/network_builder.cc
  lab/autotest/network_draw.cc
  lab/autotest/network_mutation.cc
  lab/autotest/network_part.cc
  lab/autotest/network_patterns.cc
  lab/autotest/network_scope.cc
  lab/autotest/norm_spaces.cc
  lab/autotest/number_generators.cc
  lab/autotest/onednn_gradient.cc
  lab/autotest/operator_space.cc
  lab/autotest/pointwise_spaces.cc
  lab/autotest/product_spaces.cc
  lab/autotest/quantized_spaces.cc
  lab/autotest/random_spaces.cc
  lab/autotest/reduce_spaces.cc
  lab/autotest/rewritten_candidate.cc
  lab/autotest/sequence_spaces.cc
  lab/autotest/shape_spaces.cc
  lab/autotest/shrink_case.cc
  lab/autotest/shrink_sides.cc
  lab/autotest/signature_space.cc
  lab/autotest/simpler_choices.cc
  lab/autotest/spoiled_runner.cc
  lab/autotest/tensor_generator.cc
  lab/autotest/window_draw.cc
  lab/autotest/window_spaces.cc
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
