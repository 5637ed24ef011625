#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/onnx/onnx_types.h"

namespace nodewise {

// Reads a model. Fails with kDataLoss, naming `where`, for what is not one.
absl::StatusOr<std::shared_ptr<proto::Model>> ParseModel(
    absl::Span<const uint8_t> bytes, const std::string& where);

}  // namespace nodewise
