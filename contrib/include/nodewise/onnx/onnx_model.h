#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// Import and export of ONNX models. In builds without USE_ONNX all of these
// fail with kUnimplemented and say why.

// Returns what a side of an input is called: its name, or INPUT:SIDE if it has
// none.
inline std::string NameOfSide(const std::string& input, size_t side,
                              const Dim& dim) {
  return dim.name().empty() ? input + ":" + std::to_string(side) : dim.name();
}

// What is to be changed of operators that Glow wrote.
struct GlowOptions {
  // Scales and offsets that lie behind rows of 8 bits are rounded to float16.
  bool half_scales = false;
  // Rows of bytes are summed up in float16 where the results are of that type.
  bool half_sums = false;
};

// A node of a model that became several operations. They, and the values
// between them, are called as the node with a '/' and more behind.
struct ImportedCall {
  std::string node;
  std::string kind;  // "SparseLengthsSum"
  // What its inputs and outputs are called in the operator's signature, and in
  // the network.
  struct Role {
    std::string role;
    std::string value;
  };
  std::vector<Role> inputs;
  std::vector<Role> outputs;
};

struct ImportOptions {
  // Sizes for dimensions, by NameOfSide().
  std::vector<std::pair<std::string, int64_t>> dims = {};
  // Inputs to be made constants.
  std::vector<NamedTensor> freeze = {};
  // Compute what depends on constants alone and is needed for shapes.
  bool fold_shapes = true;
  // Nodes that draw random numbers and have no attribute `seed` get one that is
  // made of this number and their name; none: they stay without.
  std::optional<uint64_t> random_seed = {};
  // Make opaque operations (ops::Opaque) of nodes whose operators are not
  // known, as far as their inputs and outputs are tensors. Their outputs have
  // the types that the model states.
  bool keep_opaque = false;
  // Types of outputs of opaque operations, by their names, that are known
  // beside what the model states.
  std::vector<std::pair<std::string, TensorType>> opaque_types = {};
  // Warn of nodes and initializers that no output depends on. They are left out
  // either way.
  bool report_unused = false;
  // Refuse what is against ONNX's specification, too, where it could be
  // imported: stated types that are not those that an operator makes,
  // attributes that it does not have in its opset. Such errors are listed, and
  // the import succeeds.
  bool check_specification = false;
  // Nodes that stand before what they read are an error, not a warning. They
  // are sorted either way.
  bool refuse_unsorted = false;
  // If not null: gets the kind of each diagnostic that the import adds, by its
  // place in the list; null for those that are about the file itself.
  std::vector<const FindingKind*>* kinds = nullptr;
  GlowOptions glow = {};
  // Gets the nodes that Glow wrote, in their order. May be null.
  std::vector<ImportedCall>* calls = nullptr;
};

// Reads a model. External data is read from the model's folder, never from
// outside it. Everything that cannot be imported is listed in `diagnostics`, in
// one pass: operators that are not known, with node, operator and opset; types
// that are refused; an opset or IR that is too new; links that lead nowhere. A
// successful import may come with warnings.
//
// Operators that are not known are said once each, with all their nodes. With
// keep_opaque that is a warning.
//
// Calls of the model's functions are replaced by the functions' nodes, and
// Constant nodes by constants. With fold_shapes, other small operations that
// read only constants become constants too, and an If whose condition is
// constant is replaced by the branch that it takes; what no output needs is
// then left out. Nodes without a name are named after their operator and
// number.
absl::StatusOr<Network> ImportOnnx(const std::string& path, const OpSet& ops,
                                   const ImportOptions& options,
                                   DiagnosticList* diagnostics);
// Reads a model from memory; `where` names it in messages, `folder` is where
// external data lies ("": there may be none).
absl::StatusOr<Network> ImportOnnx(absl::Span<const uint8_t> bytes,
                                   std::string where, std::string folder,
                                   const OpSet& ops,
                                   const ImportOptions& options,
                                   DiagnosticList* diagnostics);

// Returns the bytes of a model with this network. Operators are written as they
// are in the network's opset, opaque operations as the nodes that they were.
// Barriers are left out: nodes stand in the order
// in which they run. Reading it back gives an equal network. Fails with
// kInvalidArgument, naming the operation, for what that opset cannot express,
// and with kUnimplemented for types that ONNX does not have.
absl::StatusOr<std::string> ExportOnnx(const Network& network);

// Writes a test case in the layout of ONNX's backend tests: DIR/model.onnx and
// DIR/test_data_set_0/input_0.pb, ..., output_0.pb, ...
absl::Status WriteOnnxCase(const std::string& folder, const Network& network,
                           absl::Span<const NDArray> inputs,
                           absl::Span<const NDArray> outputs);

// Returns the operation without what its node says about itself: its name, what
// its inputs and outputs were called, its comments. Attributes and bodies stay
// as they are. Fails with kDataLoss for bytes that are not such a node, and
// with kUnimplemented in builds without USE_ONNX.
absl::StatusOr<ops::Opaque> PlainOpaque(const ops::Opaque& opaque);

}  // namespace nodewise
