#pragma once

#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/tensors/tensor_file.h"
#include "nodewise/vm/vm_graph.h"

namespace nodewise {

// Gives a network the sizes that the inputs at hand have. What does not fit
// stays as it is: whoever collects the inputs says what is wrong with it.
void BindSizes(absl::Span<const VmInputType> given, Network* network);
void BindSizes(absl::Span<const NamedTensor> given, Network* network);

}  // namespace nodewise
