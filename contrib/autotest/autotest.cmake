# Random tests of operators against the reference.
add_library(nodewise_autotest STATIC EXCLUDE_FROM_ALL
  autotest/attention_spaces.cc
  autotest/autotest_report.cc
  autotest/autotest_run.cc
  autotest/backward.cc
  autotest/c_compiler.cc
  autotest/candidate.cc
  autotest/candidate_list.cc
  autotest/case_verdict.cc
  autotest/choices.cc
  autotest/classic_spaces.cc
  autotest/compiled_finding.cc
  autotest/configuration.cc
  autotest/configuration_draw.cc
  autotest/cotangents.cc
  autotest/cut_case.cc
  autotest/dual_attributes.cc
  autotest/dual_case.cc
  autotest/dual_gradient.cc
  autotest/dual_object.cc
  autotest/emitted_candidate.cc
  autotest/fill_spaces.cc
  autotest/finding_folder.cc
  autotest/foreign_candidate.cc
  autotest/generator.cc
  autotest/guarded_candidate.cc
  autotest/image_spaces.cc
  autotest/index_spaces.cc
  autotest/input_domain.cc
  autotest/math_spaces.cc
  autotest/model_list.cc
  autotest/network_adapt.cc
  autotest/network_bodies.cc
  autotest/network_builder.cc
  autotest/network_draw.cc
  autotest/network_mutation.cc
  autotest/network_part.cc
  autotest/network_patterns.cc
  autotest/network_scope.cc
  autotest/norm_spaces.cc
  autotest/number_generators.cc
  autotest/onednn_gradient.cc
  autotest/operator_space.cc
  autotest/pointwise_spaces.cc
  autotest/product_spaces.cc
  autotest/quantized_spaces.cc
  autotest/random_spaces.cc
  autotest/reduce_spaces.cc
  autotest/rewritten_candidate.cc
  autotest/sequence_spaces.cc
  autotest/shape_spaces.cc
  autotest/shrink_case.cc
  autotest/shrink_sides.cc
  autotest/signature_space.cc
  autotest/simpler_choices.cc
  autotest/tensor_generator.cc
  autotest/window_draw.cc
  autotest/window_spaces.cc
)
target_link_libraries(nodewise_autotest
  PUBLIC nodewise_kernels nodewise_locate nodewise_gradient nodewise_passes
         nodewise_report
  PRIVATE $<BUILD_INTERFACE:nodewise_options>
          $<BUILD_INTERFACE:nodewise_no_loops> absl::strings fmt::fmt)
target_include_directories(nodewise_autotest PRIVATE ${PROJECT_SOURCE_DIR})
nodewise_precompile(nodewise_autotest)
nodewise_compile_together(nodewise_autotest)
