#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/tensors/tensor_key.h"

namespace nodewise {

// Returns kNotFound: the source `where`, which has tensors of these names, does
// not have `key`.
absl::Status TensorNotFound(const std::string& where, const TensorKey& key,
                            const std::vector<std::string>& names);

// Returns whether a tensor that a file calls `name` is `key`. Output 0 of conv1
// may be called "conv1", or "conv1:0" as a run that is stopped there writes it.
bool IsNameOf(const std::string& name, const TensorKey& key);

}  // namespace nodewise
