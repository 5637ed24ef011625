#pragma once

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/onnx_types.h"

namespace nodewise {

// A node that is one of ContribFunctions().
struct ContribCall {
  const ContribFunction& function;
  const OpSet& ops;
  int opset = 0;  // The version of ONNX's own domain.
  // By input of the function, a variadic one as often as it is given: whether
  // it is given, and what is known of it.
  std::vector<InputInfo> inputs;
  // Which outputs are wanted.
  std::vector<bool> wanted;
  // Returns an attribute of the node, or null if it is not given.
  absl::FunctionRef<const proto::Attribute*(std::string_view name)> attribute;
  // Attributes that the function has besides its own.
  absl::Span<const FunctionAttribute> more_attributes = {};
};

// Returns the function that this node calls, as a model would hold it: made for
// the node, since it depends on what is given and on the types. Fails with
// kInvalidArgument if an input or an attribute does not fit.
absl::StatusOr<std::unique_ptr<proto::Function>> FunctionOf(
    const ContribCall& call);

}  // namespace nodewise
