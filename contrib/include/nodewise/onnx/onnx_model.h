#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/fault.h"

namespace nodewise {

// ONNX models in and out. In builds without USE_ONNX all of these are
// kUnimplemented and say so.

// What a side of an input goes by: its name, or INPUT:SIDE if it has none.
inline std::string NameOfSide(const std::string& input, size_t side,
                              const Dim& dim) {
  return dim.name().empty() ? input + ":" + std::to_string(side) : dim.name();
}

struct ImportOptions {
  // Sizes for dimensions by what they go by.
  std::vector<std::pair<std::string, int64_t>> dims = {};
  // Inputs to be made constants.
  std::vector<NamedTensor> freeze = {};
  // Compute what depends on constants alone and is needed for shapes.
  bool fold_shapes = true;
};

// Reads a model. External data is read from beside it, never from outside its
// folder. What cannot be imported is a list of faults, all of them in one pass:
// operators that are not known, with node, operator and opset; types that are
// refused; an opset or IR that is too new; links that lead nowhere. Warnings
// may come with a network.
//
// Functions of the model are put in the place of their calls, constants in that
// of Constant nodes, and with fold_shapes also in that of other small
// operations that read nothing else, and the branch that is taken in that of an
// If whose condition is one; what no output needs is then left out.
// Nodes without a name are named after their operator and number.
absl::StatusOr<Network> ImportOnnx(const std::string& path, const OpSet& ops,
                                   const ImportOptions& options,
                                   FaultList* faults);
// The same from memory; `where` names it, `folder` is where external data lies
// ("": there may be none).
absl::StatusOr<Network> ImportOnnx(absl::Span<const uint8_t> bytes,
                                   std::string where, std::string folder,
                                   const OpSet& ops,
                                   const ImportOptions& options,
                                   FaultList* faults);

// The bytes of a model with this network. Operators are written as they are in
// the network's opset; kInvalidArgument, with the operation, for what cannot be
// written in it. Barriers are left out: nodes stand in the order in which they
// run. Reading it back gives an equal network. kUnimplemented for types that
// ONNX does not have.
absl::StatusOr<std::string> ExportOnnx(const Network& network);

// A test case as ONNX's backend tests lie in folders: DIR/model.onnx and
// DIR/test_data_set_0/input_0.pb, ..., output_0.pb, ...
absl::Status WriteOnnxCase(const std::string& folder, const Network& network,
                           absl::Span<const NDArray> inputs,
                           absl::Span<const NDArray> outputs);

}  // namespace nodewise
