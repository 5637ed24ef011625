#pragma once

#include "absl/status/status.h"
#include "contrib/onnx/contrib_call.h"
#include "contrib/onnx/function_body.h"

namespace nodewise {

// Makes one of ONNX of an operator that only bodies have (function_body.h).
// `node` is the statement's, with its inputs; that of another operator stays as
// it is. Fails with kInvalidArgument if what is known of the inputs of the call
// does not say what it means.
absl::Status ReplaceOwn(const BodyStatement& statement, const ContribCall& call,
                        proto::Node* node);

}  // namespace nodewise
