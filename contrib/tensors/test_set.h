#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// ONNX's test sets: folders with input_0.pb, ..., output_0.pb, ...

// Returns whether a folder has a file input_N.pb or output_N.pb.
bool IsTestSet(const std::string& folder);

// Returns the folders test_data_set_N of a model's folder.
std::vector<std::string> TestSetsIn(const std::string& folder);

// Opens a folder as a test set. Fails with kDataLoss if a number is left out,
// and with kInvalidArgument if it has more files than `names`.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenTestSet(
    const std::string& folder, const TestSetNames& names);

}  // namespace nodewise
