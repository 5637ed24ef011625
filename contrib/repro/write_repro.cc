#include "nodewise/repro/write_repro.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "contrib/repro/repro_texts.h"
#include "fmt/format.h"
#include "nodewise/artefact/blank_network.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

absl::Status MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: cannot make the folder: {}",
                                            folder.string(), error.message()));
}

absl::Status WriteFileText(const fs::path& path, std::string_view text) {
  return ReplaceFile(path.string(), text);
}

absl::Status WriteTensorsOf(const fs::path& path,
                            absl::Span<const NamedTensor> tensors) {
  return ReplaceFile(path.string(), [&](const std::string& beside) {
    return WriteParams(beside, tensors);
  });
}

absl::StatusOr<NDArray> TensorOfLimits(const ReproOutput& output) {
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray limits,
      NDArray::Empty(output.reference.shape(), {kDLFloat, 64, 1}, kCpu));
  NODEWISE_RETURN_IF_ERROR(CopyFromBytes(
      output.limits.data(), output.limits.size() * sizeof(double), *limits));
  return limits;
}

class ReproWriter {
 public:
  ReproWriter(const ReproCase& node_case, const std::string& folder)
      : case_(node_case), folder_(folder), data_(folder_ / "data") {}

  // The graph comes last: a folder with a graph is complete.
  absl::Status Write() {
    NODEWISE_RETURN_IF_ERROR(MakeFolder(folder_));
    NODEWISE_RETURN_IF_ERROR(MakeFolder(data_));
    NODEWISE_RETURN_IF_ERROR(WriteTensors());
    NODEWISE_RETURN_IF_ERROR(WriteModel());
    NODEWISE_RETURN_IF_ERROR(WriteProgram());
    NODEWISE_RETURN_IF_ERROR(CopyLibrary());
    NODEWISE_RETURN_IF_ERROR(
        WriteFileText(folder_ / "README.md", ReproReadme(case_, contents_)));
    NODEWISE_RETURN_IF_ERROR(
        WriteFileText(folder_ / "repro.json", ReproDocument(case_, contents_)));
    return WriteFileText(folder_ / "graph.json", WriteGraph(case_.graph));
  }

 private:
  std::string NameOfOutput(const char* what, const ReproOutput& output) const {
    return fmt::format("{}_{}_{}", what, output.role, case_.layer);
  }

  // A file of TVM's, which the command reads as well, and one for numpy.
  absl::Status WriteTensors() {
    std::vector<NamedTensor> inputs, params, original, candidate;
    std::vector<ReproInput> all_inputs = case_.inputs;
    all_inputs.insert(all_inputs.end(), case_.earlier_inputs.begin(),
                      case_.earlier_inputs.end());
    for (const ReproInput& input : all_inputs) {
      (input.is_param ? params : inputs).push_back({input.name, input.tensor});
      if (!input.original.defined()) continue;
      original.push_back({input.name, input.original});
    }
    for (const ReproOutput& output : case_.outputs) {
      if (!output.candidate.defined()) continue;
      candidate.push_back({NameOfOutput("out", output), output.candidate});
    }
    if (!params.empty()) {
      NODEWISE_RETURN_IF_ERROR(
          WriteTensorsOf(folder_ / "params.params", params));
    }
    NODEWISE_RETURN_IF_ERROR(WriteTensorsOf(data_ / "inputs.params", inputs));
    if (case_.may_run) {
      NODEWISE_RETURN_IF_ERROR(
          WriteTensorsOf(data_ / "candidate.params", candidate));
    }
    if (!original.empty()) {
      NODEWISE_RETURN_IF_ERROR(
          WriteTensorsOf(data_ / "original.params", original));
    }
    std::vector<NamedTensor> all = std::move(inputs);
    all.insert(all.end(), params.begin(), params.end());
    all.insert(all.end(), candidate.begin(), candidate.end());
    if (case_.is_judged()) {
      NODEWISE_RETURN_IF_ERROR(WriteReference(&all));
    }
    return WriteForNumpy(all);
  }

  absl::Status WriteReference(std::vector<NamedTensor>* all) {
    std::vector<NamedTensor> reference, limits;
    std::string names;
    for (const ReproOutput& output : case_.outputs) {
      NODEWISE_ASSIGN_OR_RETURN(NDArray limit, TensorOfLimits(output));
      reference.push_back({NameOfOutput("ref", output), output.reference});
      limits.push_back({NameOfOutput("limit", output), std::move(limit)});
      names += fmt::format("{}\t{}\n", reference.back().name,
                           NameOfOutput("out", output));
    }
    all->insert(all->end(), reference.begin(), reference.end());
    all->insert(all->end(), limits.begin(), limits.end());
    NODEWISE_RETURN_IF_ERROR(
        WriteTensorsOf(data_ / "reference.params", reference));
    NODEWISE_RETURN_IF_ERROR(WriteTensorsOf(data_ / "limits.params", limits));
    if (!case_.may_run) return absl::OkStatus();
    return WriteFileText(data_ / "names.txt", names);
  }

  // numpy does not have all types.
  absl::Status WriteForNumpy(const std::vector<NamedTensor>& all) {
    const absl::Status status =
        WriteTensorFile((data_ / "tensors.npz").string(), all);
    if (!absl::IsUnimplemented(status)) return status;
    contents_.why_no_npz = std::string(MessageOf(status));
    return absl::OkStatus();
  }

  // What ONNX cannot express is left out, with the reason.
  absl::Status WriteModel() {
    if (!case_.region.has_value()) {
      contents_.why_no_model = case_.why_no_region;
      return absl::OkStatus();
    }
    const bool is_beside = case_.beside.has_value();
    Network network = is_beside ? case_.beside->model : case_.region->network;
    const std::vector<ValueId> given(network.inputs().begin(),
                                     network.inputs().end());
    std::vector<NDArray> inputs, outputs;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const ReproInput& input = case_.inputs[i];
      // Weights are constants in models, which runtimes treat apart.
      const bool is_constant =
          input.is_param && network.Freeze(given[i], input.tensor).ok();
      if (!is_constant) inputs.push_back(input.tensor);
    }
    for (const ReproOutput& output : case_.outputs) {
      outputs.push_back(output.reference);
    }
    // The model has weights of its own.
    if (is_beside) network.RemoveUnused();
    const auto can_be_written = ExportOnnx(network);
    if (is_beside) {
      // Without it, the folder would show nothing.
      NODEWISE_RETURN_IF_ERROR(can_be_written.status());
      NODEWISE_ASSIGN_OR_RETURN(outputs, Interpret(network, inputs));
    }
    if (!can_be_written.ok()) {
      contents_.why_no_model = std::string(MessageOf(can_be_written.status()));
      return absl::OkStatus();
    }
    return WriteOnnxCase(folder_.string(), network, inputs, outputs);
  }

  // Built-in functions are not part of the library that programs link.
  absl::Status WriteProgram() {
    contents_.has_program = !case_.library_file.empty() && case_.is_judged();
    if (!contents_.has_program) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(
        WriteFileText(folder_ / "main.cc", ReproProgram()));
    return WriteFileText(folder_ / "CMakeLists.txt", ReproCMakeLists());
  }

  absl::Status CopyLibrary() {
    if (case_.library_file.empty()) return absl::OkStatus();
    return ReplaceFile(folder_ / "lib.so",
                       [&](const std::string& beside) -> absl::Status {
                         NODEWISE_ASSIGN_OR_RETURN(OutputFile copy,
                                                   OutputFile::Create(beside));
                         NODEWISE_RETURN_IF_ERROR(AppendLibrary(&copy));
                         return copy.Commit();
                       });
  }

  absl::Status AppendLibrary(OutputFile* copy) const {
    if (!case_.anonymity.has_value()) {
      return AppendFile(case_.library_file, 0, copy);
    }
    // The whole network may lie beside the code.
    NODEWISE_ASSIGN_OR_RETURN(const std::string blank,
                              WithBlankNetwork(case_.library_file));
    return copy->Write(blank);
  }

  const ReproCase& case_;
  const fs::path folder_;
  const fs::path data_;
  ReproContents contents_;
};

}  // namespace

absl::Status CheckReproFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    const fs::path parent = fs::absolute(folder, error).parent_path();
    if (fs::is_directory(parent, error)) return absl::OkStatus();
    return absl::NotFoundError(
        fmt::format("{}: cannot be made, since there is no folder {}", folder,
                    parent.string()));
  }
  const fs::directory_iterator at(folder, error);
  if (error) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: cannot be listed, expected an empty folder, or none", folder));
  }
  if (at == fs::directory_iterator()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: holds {}, expected an empty folder, or none", folder,
                  at->path().filename().string()));
}

absl::Status WriteRepro(const ReproCase& node_case, const std::string& folder) {
  NODEWISE_RETURN_IF_ERROR(CheckReproFolder(folder));
  if (node_case.library_file.empty() && !HasBuiltInFunctions(node_case.graph)) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: its functions are in memory alone, expected a library in a file",
        node_case.node));
  }
  if (node_case.anonymity.has_value() && node_case.anonymity->has_names) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: is to be anonymous and has its names, expected HideNames() first",
        node_case.node));
  }
  NODEWISE_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(folder));
  NODEWISE_RETURN_IF_ERROR(ReproWriter(node_case, folder).Write());
  made.Keep();
  return absl::OkStatus();
}

}  // namespace nodewise
