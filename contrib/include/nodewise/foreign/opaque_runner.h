#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_def.h"
#include "nodewise/ops/opaque.h"

namespace nodewise {

// Returns something that has another program run each opaque operation, as a
// model of that one node: what was constant in its own model is so there, what
// the operation reads else is an input. What it has made of the same inputs is
// kept, as far as that takes little memory. `program` has no network, and no
// file of a model; its name is for messages. Fails with kInvalidArgument if
// there is no ops::Opaque among the operators.
absl::StatusOr<std::shared_ptr<const OpaqueRunner>> MakeOpaqueRunner(
    ForeignTarget program, const OpSet& ops);

// Makes every opaque operation wait for the one before it, by barriers, so that
// passes and lowering keep their order: the code that runs them may draw random
// numbers, count its calls or keep what it has seen, and then the order decides
// what they compute. Those that no output depends on stay if one behind them is
// needed. Networks in bodies are left as they are.
absl::Status OrderOpaqueOperations(Network* network);

}  // namespace nodewise
