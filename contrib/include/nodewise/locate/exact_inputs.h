#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/op/op_def.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Nodes that move, choose, add and multiply numbers can be given zeros and
// small whole numbers, with which every order of every sum gives the same. So
// what they make is right bit for bit or wrong, and no bounds are needed.

// What a node did with such inputs.
struct ExactCheck {
  // By output, each equal or wrong; zeros of either sign are equal, and so are
  // NaN. None if the node could not be checked.
  std::vector<TensorComparison> outputs;
  // Not equal, but all within the proved bound, in a convolution whose window
  // moves on by one: the kernel's algorithm itself may not be exact, as
  // Winograd's is not. Then no output is wrong.
  bool is_inexact = false;
  // Its weights were replaced, too: this says something of the kernel alone.
  bool has_other_weights = false;
  std::string why_not;  // Why it could not be checked.

  // None if it could not be checked.
  std::optional<Verdict> verdict() const;
};

// Runs the candidate up to this node with exact tensors, drawn with this seed,
// in the place of all that it reads. `inputs` are the network's, as for
// Runner::Run(). Nodes must say what they compute, as those of Lower() do. The
// result says what keeps a node from being checked, if anything. REQUIRES: the
// candidate runs that graph and has the capabilities kPatches and kSteps; the
// node calls a function.
ExactCheck CheckExactly(const GraphIndex& index, const OpSet& operators,
                        NodeId node, Runner& candidate,
                        const std::vector<NamedTensor>& inputs,
                        uint64_t seed = 1);

}  // namespace nodewise
