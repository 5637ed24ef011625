// Replaces the rest of this folder in builds without ONNX.

#include "nodewise/onnx/onnx_model.h"
#include "nodewise/onnx/user_model.h"

namespace nodewise {
namespace {

absl::Status Absent(const std::string& where) {
  return absl::UnimplementedError(where +
                                  ": is an ONNX model, which a build with "
                                  "USE_ONNX OFF cannot read or write");
}

}  // namespace

absl::StatusOr<Network> ImportOnnx(const std::string& path, const OpSet&,
                                   const ImportOptions&, DiagnosticList*) {
  return Absent(path);
}

absl::StatusOr<Network> ImportOnnx(absl::Span<const uint8_t>, std::string where,
                                   std::string, const OpSet&,
                                   const ImportOptions&, DiagnosticList*) {
  return Absent(where);
}

absl::StatusOr<std::string> ExportOnnx(const Network& network) {
  return Absent("network " + network.name());
}

absl::StatusOr<UserModel> UserModel::Open(const std::string& path) {
  return Absent(path);
}

absl::StatusOr<std::string> UserModel::With(absl::Span<const Value>,
                                            absl::Span<const Value>) const {
  return Absent(path_);
}

absl::StatusOr<std::string> UserModel::EndingAt(absl::Span<const Value>,
                                                absl::Span<const Value>) const {
  return Absent(path_);
}

absl::Status WriteOnnxCase(const std::string& folder, const Network&,
                           absl::Span<const NDArray>,
                           absl::Span<const NDArray>) {
  return Absent(folder);
}

absl::StatusOr<ops::Opaque> PlainOpaque(const ops::Opaque& opaque) {
  return Absent(NameOf(opaque));
}

}  // namespace nodewise
