#include "contrib/onnx/parse_model.h"

#include <climits>

#include "fmt/format.h"

namespace nodewise {

absl::StatusOr<std::shared_ptr<proto::Model>> ParseModel(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  if (bytes.size() > INT_MAX) {
    return absl::DataLossError(fmt::format(
        "{}: has {} bytes, expected less than 2 GiB (weights may lie in files "
        "beside it)",
        where, bytes.size()));
  }
  auto model = std::make_shared<proto::Model>();
  if (model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return model;
  }
  return absl::DataLossError(fmt::format(
      "{}: is not an ONNX model, or a damaged one (protobuf cannot read it)",
      where));
}

}  // namespace nodewise
