#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Reads an ONNX model, or all in a folder and those in it, in the order of
// their paths; each network is called as its file. Models of a folder that
// cannot be imported are left out; fails, giving the first reason, if there is
// no other.
absl::StatusOr<std::vector<std::shared_ptr<const Network>>> LoadModelsOf(
    const std::string& path);

}  // namespace nodewise
