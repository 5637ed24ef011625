#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// The kinds of sources that OpenTensorSource tells apart.

// A .params, .npz, .npy or .pb file.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenFileSource(
    const std::string& path);

// A dump, named as OpenDump takes it; fails as that does.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenDumpSource(
    const std::string& path);

// Returns whether a folder has a file input_N.pb or output_N.pb.
bool IsTestSet(const std::string& folder);
// REQUIRES: IsTestSet(folder).
absl::StatusOr<std::unique_ptr<TensorSource>> OpenTestSet(
    const std::string& folder, const TestSetNames& names);

}  // namespace nodewise
