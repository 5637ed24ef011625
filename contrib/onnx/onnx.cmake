# ONNX's messages, from a .proto of our own: those that distributions ship are
# older than the models that people have.
find_package(Protobuf REQUIRED)

set(proto_folder ${PROJECT_BINARY_DIR}/generated)
set(proto_stem ${proto_folder}/contrib/onnx/onnx.pb)
file(MAKE_DIRECTORY ${proto_folder})
add_custom_command(
  OUTPUT ${proto_stem}.cc ${proto_stem}.h
  COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR}
    --cpp_out=${proto_folder} contrib/onnx/onnx.proto
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/onnx.proto
  VERBATIM)

nodewise_text_in_program(onnx/operator_signatures)

# Apart, since what protoc writes is not held to our warnings.
add_library(nodewise_onnx_proto STATIC ${proto_stem}.cc)
add_custom_target(nodewise_onnx_header DEPENDS ${proto_stem}.h)
target_include_directories(nodewise_onnx_proto SYSTEM
  PUBLIC $<BUILD_INTERFACE:${proto_folder}>)
target_link_libraries(nodewise_onnx_proto PUBLIC protobuf::libprotobuf-lite)
add_dependencies(nodewise_onnx_proto nodewise_onnx_header)

target_sources(nodewise_contrib PRIVATE
  onnx/attention_functions.cc
  onnx/nested_importer.cc
  onnx/classic_functions.cc
  onnx/contrib_importer.cc
  onnx/constant_folder.cc
  onnx/function_body.cc
  onnx/glow_element_functions.cc
  onnx/glow_importer.cc
  onnx/glow_layer_functions.cc
  onnx/glow_lookup_functions.cc
  onnx/glow_quantized_functions.cc
  onnx/glow_shape_functions.cc
  onnx/graph_importer.cc
  onnx/layer_functions.cc
  onnx/model_links.cc
  onnx/node_importer.cc
  onnx/onnx_case.cc
  onnx/onnx_exporter.cc
  onnx/onnx_importer.cc
  onnx/opaque_node.cc
  onnx/operator_finder.cc
  onnx/operator_signatures.cc
  onnx/onnx_messages.cc
  onnx/quantized_functions.cc
  onnx/specification.cc
  onnx/user_model.cc
)
add_dependencies(nodewise_contrib nodewise_onnx_header)
target_link_libraries(nodewise_contrib PRIVATE nodewise_onnx_proto)
