// Writes networks as cases in the layout of ONNX's backend tests.

#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

absl::Status WriteTensors(const fs::path& folder, const char* what,
                          const Network& network,
                          absl::Span<const ValueId> values,
                          absl::Span<const NDArray> tensors) {
  if (values.size() != tensors.size()) {
    return InvalidArgument("{}: has {} {}s, expected {}", folder.string(),
                           tensors.size(), what, values.size());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", what, i);
    NODEWISE_RETURN_IF_ERROR(
        WriteTensorFile(path, {{network.value(values[i]).name, tensors[i]}}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteOnnxCase(const std::string& folder, const Network& network,
                           absl::Span<const NDArray> inputs,
                           absl::Span<const NDArray> outputs) {
  const fs::path data = fs::path(folder) / "test_data_set_0";
  std::error_code error;
  fs::create_directories(data, error);
  if (error) {
    return PermissionDenied("{}: cannot be made: {}", data.string(),
                            error.message());
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::string model, ExportOnnx(network));
  NODEWISE_ASSIGN_OR_RETURN(
      OutputFile file, OutputFile::Create(fs::path(folder) / "model.onnx"));
  NODEWISE_RETURN_IF_ERROR(file.Write(model));
  NODEWISE_RETURN_IF_ERROR(file.Commit());
  NODEWISE_RETURN_IF_ERROR(
      WriteTensors(data, "input", network, network.inputs(), inputs));
  return WriteTensors(data, "output", network, network.outputs(), outputs);
}

}  // namespace nodewise
