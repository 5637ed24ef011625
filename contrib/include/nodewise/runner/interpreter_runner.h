#pragma once

#include <memory>
#include <string>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Makes a runner that walks over a network, computing its operations with an
// evaluator, which must outlive it. `kind` and `target` make its name:
// "interpreter model.onnx". The network must not change any more. It has all
// capabilities but what nodes read.
std::unique_ptr<Runner> MakeNetworkRunner(
    const std::string& kind, const std::string& target,
    std::shared_ptr<const Network> network,
    const Evaluator& evaluator = ReferenceEvaluator());

}  // namespace nodewise
