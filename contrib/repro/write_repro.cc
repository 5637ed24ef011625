#include "nodewise/repro/write_repro.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "contrib/repro/repro_texts.h"
#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/file.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

absl::Status MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (!error) return absl::OkStatus();
  return Unavailable("{}: cannot make the folder: {}", folder.string(),
                     error.message());
}

// A file that says something by being there is only written with tensors in it.
absl::Status WriteTensorsOf(const fs::path& path,
                            absl::Span<const NamedTensor> tensors,
                            bool also_if_empty = true) {
  if (tensors.empty() && !also_if_empty) return absl::OkStatus();
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

struct ReproWriter {
  const ReproCase& node_case;
  const fs::path folder;
  const fs::path data = folder / "data";
  ReproContents contents = {};

  // The graph comes last: a folder with a graph is complete.
  absl::Status Write() {
    NODEWISE_RETURN_IF_ERROR(MakeFolder(folder));
    NODEWISE_RETURN_IF_ERROR(MakeFolder(data));
    NODEWISE_RETURN_IF_ERROR(WriteTensors());
    NODEWISE_RETURN_IF_ERROR(WriteModel());
    NODEWISE_RETURN_IF_ERROR(WriteProgram());
    NODEWISE_RETURN_IF_ERROR(CopyLibrary());
    NODEWISE_RETURN_IF_ERROR(
        ReplaceFile(folder / "README.md", ReproReadme(node_case, contents)));
    NODEWISE_RETURN_IF_ERROR(
        ReplaceFile(folder / "repro.json", ReproDocument(node_case, contents)));
    return ReplaceFile(folder / "graph.json", WriteGraph(node_case.graph));
  }

  std::string NameOfOutput(const char* what, const ReproOutput& output) const {
    return fmt::format("{}_{}_{}", what, output.role, node_case.layer);
  }

  // A file of TVM's, which the command reads as well, and one for numpy. Inputs
  // of earlier nodes stand in the same file as those of the node: the graph
  // tells them apart by their names.
  absl::Status WriteTensors() {
    std::vector<NamedTensor> inputs, params, original, candidate;
    std::vector<ReproInput> all_inputs = node_case.inputs;
    all_inputs.insert(all_inputs.end(), node_case.earlier_inputs.begin(),
                      node_case.earlier_inputs.end());
    for (const ReproInput& input : all_inputs) {
      (input.is_param ? params : inputs).push_back({input.name, input.tensor});
      if (!input.original.defined()) continue;
      original.push_back({input.name, input.original});
    }
    for (const ReproOutput& output : node_case.outputs) {
      if (!output.candidate.defined()) continue;
      candidate.push_back({NameOfOutput("out", output), output.candidate});
    }
    NODEWISE_RETURN_IF_ERROR(
        WriteTensorsOf(folder / "params.params", params, false));
    NODEWISE_RETURN_IF_ERROR(WriteTensorsOf(data / "inputs.params", inputs));
    if (node_case.may_run) {
      NODEWISE_RETURN_IF_ERROR(
          WriteTensorsOf(data / "candidate.params", candidate));
    }
    NODEWISE_RETURN_IF_ERROR(
        WriteTensorsOf(data / "original.params", original, false));
    std::vector<NamedTensor> all = std::move(inputs);
    all.insert(all.end(), params.begin(), params.end());
    all.insert(all.end(), candidate.begin(), candidate.end());
    if (node_case.is_judged()) NODEWISE_RETURN_IF_ERROR(WriteReference(&all));
    return WriteForNumpy(all);
  }

  absl::Status WriteReference(std::vector<NamedTensor>* all) {
    std::vector<NamedTensor> reference, limits;
    std::string names;
    for (const ReproOutput& output : node_case.outputs) {
      NODEWISE_ASSIGN_OR_RETURN(NDArray limit, TensorOfLimits(output));
      reference.push_back({NameOfOutput("ref", output), output.reference});
      limits.push_back({NameOfOutput("limit", output), std::move(limit)});
      // The file maps the reference's names to the candidate's, for `nodewise
      // compare --map`.
      names += fmt::format("{}\t{}\n", reference.back().name,
                           NameOfOutput("out", output));
    }
    all->insert(all->end(), reference.begin(), reference.end());
    all->insert(all->end(), limits.begin(), limits.end());
    NODEWISE_RETURN_IF_ERROR(
        WriteTensorsOf(data / "reference.params", reference));
    NODEWISE_RETURN_IF_ERROR(WriteTensorsOf(data / "limits.params", limits));
    if (!node_case.may_run) return absl::OkStatus();
    return ReplaceFile(data / "names.txt", names);
  }

  // numpy does not have all types.
  absl::Status WriteForNumpy(const std::vector<NamedTensor>& all) {
    const absl::Status status =
        WriteTensorFile((data / "tensors.npz").string(), all);
    if (!absl::IsUnimplemented(status)) return status;
    contents.why_no_npz = std::string(MessageOf(status));
    return absl::OkStatus();
  }

  // A region that ONNX cannot express has no model, and the README gives the
  // reason.
  absl::Status WriteModel() {
    if (!node_case.region) {
      contents.why_no_model = node_case.why_no_region;
      return absl::OkStatus();
    }
    const bool is_beside = node_case.beside.has_value();
    Network network =
        is_beside ? node_case.beside->model : node_case.region->network;
    const std::vector<ValueId> given(network.inputs().begin(),
                                     network.inputs().end());
    std::vector<NDArray> inputs, outputs;
    for (size_t i = 0; i < node_case.inputs.size(); ++i) {
      const ReproInput& input = node_case.inputs[i];
      // Weights are constants in models, which runtimes treat apart.
      const bool is_constant =
          input.is_param && network.Freeze(given[i], input.tensor).ok();
      if (!is_constant) inputs.push_back(input.tensor);
    }
    for (const ReproOutput& output : node_case.outputs) {
      outputs.push_back(output.reference);
    }
    // The model has weights of its own. Parameters that were frozen beside it
    // would only make the file larger.
    if (is_beside) network.RemoveUnused();
    const auto can_be_written = ExportOnnx(network);
    if (is_beside) {
      // Without it, the folder would show nothing.
      NODEWISE_RETURN_IF_ERROR(can_be_written.status());
      NODEWISE_ASSIGN_OR_RETURN(outputs, Interpret(network, inputs));
    }
    if (!can_be_written.ok()) {
      contents.why_no_model = std::string(MessageOf(can_be_written.status()));
      return absl::OkStatus();
    }
    return WriteOnnxCase(folder.string(), network, inputs, outputs);
  }

  // Built-in functions are not part of the library that programs link.
  absl::Status WriteProgram() {
    contents.has_program =
        !node_case.library_file.empty() && node_case.is_judged();
    if (!contents.has_program) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(ReplaceFile(folder / "main.cc", ReproProgram()));
    return ReplaceFile(folder / "CMakeLists.txt", ReproCMakeLists());
  }

  absl::Status CopyLibrary() {
    if (node_case.library_file.empty()) return absl::OkStatus();
    const auto write = [&](const std::string& beside) -> absl::Status {
      NODEWISE_ASSIGN_OR_RETURN(OutputFile copy, OutputFile::Create(beside));
      NODEWISE_RETURN_IF_ERROR(AppendLibrary(&copy));
      return copy.Commit();
    };
    return ReplaceFile(folder / "lib.so", write);
  }

  absl::Status AppendLibrary(OutputFile* copy) const {
    if (!node_case.anonymity)
      return AppendFile(node_case.library_file, 0, copy);
    // The whole network may lie beside the code.
    NODEWISE_ASSIGN_OR_RETURN(const std::string blank,
                              WithErasedNetwork(node_case.library_file));
    return copy->Write(blank);
  }
};

}  // namespace

// A folder that has anything in it is never written into.
absl::Status CheckReproFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    const fs::path parent = fs::absolute(folder, error).parent_path();
    if (fs::is_directory(parent, error)) return absl::OkStatus();
    return NotFound("{}: cannot be made, since there is no folder {}", folder,
                    parent.string());
  }
  const fs::directory_iterator at(folder, error);
  if (error) {
    return InvalidArgument(
        "{}: cannot be listed, expected an empty folder, or none", folder);
  }
  if (at == fs::directory_iterator()) return absl::OkStatus();
  return InvalidArgument("{}: holds {}, expected an empty folder, or none",
                         folder, at->path().filename().string());
}

absl::Status WriteRepro(const ReproCase& node_case, const std::string& folder) {
  NODEWISE_RETURN_IF_ERROR(CheckReproFolder(folder));
  if (node_case.library_file.empty() && !HasBuiltInFunctions(node_case.graph)) {
    return FailedPrecondition(
        "{}: its functions are in memory alone, expected a library in a file",
        node_case.node);
  }
  if (node_case.anonymity && node_case.anonymity->has_names) {
    return FailedPrecondition(
        "{}: is to be anonymous and has its names, expected HideNames() first",
        node_case.node);
  }
  // The folder is gone again if writing it fails.
  NODEWISE_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(folder));
  ReproWriter writer{node_case, folder};
  NODEWISE_RETURN_IF_ERROR(writer.Write());
  made.Keep();
  return absl::OkStatus();
}

}  // namespace nodewise
