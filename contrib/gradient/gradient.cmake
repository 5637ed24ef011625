# Gradients of networks, as networks.
add_library(nodewise_gradient STATIC EXCLUDE_FROM_ALL
  gradient/arithmetic_rules.cc
  gradient/attention_rules.cc
  gradient/bodies.cc
  gradient/control_rules.cc
  gradient/definitions.cc
  gradient/function_rules.cc
  gradient/gradient.cc
  gradient/index_rules.cc
  gradient/move_rules.cc
  gradient/norm_rules.cc
  gradient/product_rules.cc
  gradient/recurrent_rules.cc
  gradient/reduce_rules.cc
  gradient/resize_rules.cc
  gradient/roi_rules.cc
  gradient/rules.cc
  gradient/sampling_rules.cc
  gradient/sequence_rules.cc
  gradient/signal_rules.cc
  gradient/window_rules.cc
  gradient/writer.cc
)
target_link_libraries(nodewise_gradient
  PUBLIC nodewise_ops nodewise_precision
  PRIVATE $<BUILD_INTERFACE:nodewise_options> absl::strings fmt::fmt)
target_include_directories(nodewise_gradient PRIVATE ${PROJECT_SOURCE_DIR})
nodewise_precompile(nodewise_gradient)
nodewise_compile_together(nodewise_gradient)
