// What the test in docs/autotest.md is for. With $LEAVES_OUT_THE_LAST set it
// leaves out the last number that a ConvTranspose makes.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "nodewise/autotest/candidate.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"

inline nodewise::CandidateOutputs RunOnMyBackend(
    const nodewise::Network& network,
    const std::vector<nodewise::NDArray>& inputs) {
  nodewise::CandidateOutputs made = nodewise::Interpret(network, inputs);
  if (!made.ok() || std::getenv("LEAVES_OUT_THE_LAST") == nullptr) return made;
  for (const nodewise::OperationId id : network.order()) {
    if (network.operation(id).kind() != "ConvTranspose") continue;
    const nodewise::NDArray& output = made->front();
    if (output.bytes() == 0) continue;
    static_cast<float*>(output.data())[output.bytes() / sizeof(float) - 1] = 0;
  }
  return made;
}
