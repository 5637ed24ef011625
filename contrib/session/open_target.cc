// From a spec to what is ready to run: which kind of target it is, its files,
// its inputs or samples, and what is worth knowing about it.
//
// A model becomes a graph with functions of its own, or stays a network for a
// program or the interpreter; an artefact is loaded with its files. Inputs are
// collected before anything runs, so that a run never fails for them, and their
// sizes may decide how the model is lowered.

#include <filesystem>
#include <utility>

#include "contrib/session/open_model.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/lower/lower.h"
#include "nodewise/runner/input_files.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/session/model_file.h"
#include "nodewise/session/session.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

constexpr size_t kMostNames = 4;

// Returns whether all files of a sample can be read, and adds them to `inputs`,
// by the name of the input where a file has one alone.
bool AddFilesOf(const std::string& sample, InputSpec* inputs) {
  bool is_sound = false;
  for (const std::string& path : TensorFilesOf(sample)) {
    const auto file = TensorFileReader::Open(path);
    is_sound = file.ok();
    for (size_t i = 0; is_sound && i < (*file)->names().size(); ++i) {
      is_sound = (*file)->Read(i).ok();
    }
    if (!is_sound) break;
    if (path.ends_with(".npz") || path.ends_with(".params")) {
      inputs->files.push_back({"", path});
    } else if ((*file)->names().size() == 1) {
      inputs->files.push_back({(*file)->names()[0], path});
    }
  }
  return is_sound;
}

// Sizes come from the first sample that can be read: a damaged one is a fault
// of its own, which is found when it is its turn to run.
InputSpec InputsForSizes(const std::vector<std::string>& samples,
                         const InputSpec& shared) {
  for (const std::string& sample : samples) {
    InputSpec inputs = shared;
    if (AddFilesOf(sample, &inputs)) return inputs;
  }
  return shared;
}

// A sample is read when it is its turn, with a reader of its own: thousands of
// them would not fit into memory.
absl::StatusOr<std::vector<NamedTensor>> ReadSample(const std::string& sample,
                                                    const InputList& list,
                                                    InputSpec inputs,
                                                    const ModelSpec& model) {
  NODEWISE_ASSIGN_OR_RETURN(const auto own, FilesOfSample(sample, list));
  inputs.files.insert(inputs.files.end(), own.begin(), own.end());
  inputs.hints.how_to_give =
      [shared = inputs.hints.how_to_give](const std::string& name) {
        return "in the sample" + (shared == nullptr ? "" : ", " + shared(name));
      };
  InputFiles reader;
  SetFrozen(model, &reader);
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<RunInput> given,
                            CheckedInputs(inputs, list, reader, &diagnostics));
  return NameInputs(list, given);
}

constexpr size_t kMostListed = 8;

// A library may need the types of the inputs. Files that are read for these are
// kept in `input_files`.
absl::StatusOr<Session> OpenArtefact(const TargetSpec& spec,
                                     InputFiles* input_files) {
  NODEWISE_ASSIGN_OR_RETURN(ArtefactFiles files, FilesOf(spec));
  const auto types = [&]() -> absl::StatusOr<std::vector<VmInputType>> {
    NODEWISE_ASSIGN_OR_RETURN(std::vector<VmInputType> types,
                              input_files->TypesOf(spec.inputs.files));
    for (const NamedTensor& input : spec.inputs.tensors) {
      const absl::Span<const int64_t> shape = input.tensor.shape();
      types.push_back(
          {input.name, {shape.begin(), shape.end()}, input.tensor.dtype()});
    }
    return types;
  };
  std::vector<DLDevice> devices = spec.devices;
  if (devices.empty()) devices.push_back(kCpu);
  Session session;
  // Compiled code needs no operators, and they take longer than its own start.
  if (files.library.empty()) {
    session.built_ins =
        BuiltIns(spec.lowering.backend.value_or(Backend::kFastest));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      session.target, GraphTarget::Load(std::move(files), std::move(devices),
                                        types, session.built_ins));
  if (spec.lowering.backend.has_value() &&
      !HasBuiltInFunctions(session.target->graph())) {
    return InvalidArgument(
        "{}: has compiled functions, expected a model or an artefact of "
        "built-in functions, for which a backend can be chosen",
        session.target->name());
  }
  return session;
}

// The file says nothing of what was changed since it was read.
absl::StatusOr<Session> OpenForProgram(const TargetSpec& spec,
                                       InputFiles* files,
                                       DiagnosticList* diagnostics) {
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            OpenNetwork(spec, files, diagnostics));
  session.program = spec.program;
  session.name = spec.program->name;
  const bool is_changed =
      spec.network != nullptr || !spec.model.freeze.empty() ||
      spec.precision.precision.has_value() || !spec.passes.empty() ||
      (!session.opaque->operators.empty() && session.opaque->program.empty());
  if (!is_changed && IsModel(spec.path)) session.model_file = spec.path;
  return session;
}

// A network in memory comes before a path, which then is only a name.
absl::StatusOr<Session> Open(const TargetSpec& spec, InputFiles* files,
                             DiagnosticList* diagnostics) {
  if (spec.program != nullptr) return OpenForProgram(spec, files, diagnostics);
  if (spec.graph != nullptr) {
    Session session;
    session.target = spec.graph;
    return session;
  }
  if (spec.network == nullptr && !IsModelOrText(spec.path)) {
    return OpenArtefact(spec, files);
  }
  return OpenModel(spec, files, diagnostics);
}

// A run of such a graph looks like any other, and its results are those of
// another node.
void NoteLostOutputs(Session* session) {
  const auto planned = session->target->PlannedIndex();
  if (!planned.ok()) return;  // No executor can be made, which says why.
  const GraphIndex& index = **planned;
  for (const LostOutput& lost : LostOutputs(index)) {
    session->notes.push_back(fmt::format(
        "output {} of the graph ({}) is lost: {} is written over it, in "
        "storage {}",
        lost.output, index.TitleOf(lost.entry),
        index.TitleOf(lost.written_over_by),
        index.graph().entry(lost.written_over_by).storage_id));
  }
}

// Unknown parameters do no harm, but show that the file is of another build.
void NoteUnknownParams(Session* session) {
  const auto& unknown = session->target->unknown_params();
  if (unknown.empty()) return;
  session->notes.push_back(fmt::format(
      "{}: {} that the graph does not have: {}",
      session->target->ParamsLocation(), CountOf(unknown.size(), "parameter"),
      ListOf(unknown, kMostListed)));
}

// Opens a target with the samples in the folder of the spec. A target that
// leaves sizes open takes those of the first sample that can be read. Fails as
// ListSamples() and OpenWithoutInputs().
absl::StatusOr<Session> OpenWithSamples(const TargetSpec& spec,
                                        DiagnosticList* diagnostics) {
  NODEWISE_ASSIGN_OR_RETURN(const auto folder, ListSamples(spec.samples));
  TargetSpec sized = spec;
  sized.inputs = InputsForSizes(folder.samples, spec.inputs);
  InputFiles files;
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            OpenWithoutInputs(sized, &files, diagnostics));
  if (session.target == nullptr) {
    return InvalidArgument(
        "{}: stays a model, expected one that becomes a graph for samples",
        session.name);
  }
  for (const std::string& path : folder.samples) {
    session.samples.push_back(
        {path, [path, target = session.target, inputs = spec.inputs,
                model = spec.model] {
           return ReadSample(path, target->inputs(), inputs, model);
         }});
  }
  if (!folder.passed_over.empty()) {
    session.notes.push_back(
        fmt::format("{}: passed over what is not a sample: {}", spec.samples,
                    ListOf(folder.passed_over, kMostNames)));
  }
  return session;
}

}  // namespace

bool IsModel(const std::string& path) {
  return std::filesystem::path(path).extension() == ".onnx";
}

// The file is mapped, so that only its beginning is read.
bool IsNetworkText(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return false;
  return LooksLikeNetworkText(file->text());
}

absl::StatusOr<Network> LoadNetworkOf(const TargetSpec& spec,
                                      std::vector<std::string>* notes,
                                      DiagnosticList* diagnostics) {
  if (spec.network != nullptr) return *spec.network;
  DiagnosticList found;
  auto network = LoadModel(spec.path, spec.model, &found);
  for (Diagnostic& diagnostic : found.items()) {
    if (network.ok()) {
      notes->push_back(diagnostic.ToString());
    } else {
      diagnostics->Add(std::move(diagnostic));
    }
  }
  return network;
}

bool IsModelOrText(const std::string& path) {
  return IsModel(path) || IsNetworkText(path);
}

// Each file is checked on its own, so that a message names the one that is
// missing before anything large is read.
absl::StatusOr<ArtefactFiles> FilesOf(const TargetSpec& spec) {
  NODEWISE_ASSIGN_OR_RETURN(ArtefactFiles files,
                            FindArtefact(spec.path, spec.library, spec.params));
  files.function = spec.function;
  for (const std::string* file :
       {&files.graph, &files.library, &files.params}) {
    if (!file->empty()) NODEWISE_RETURN_IF_ERROR(CheckReadable(*file));
  }
  return files;
}

absl::StatusOr<std::unique_ptr<Runner>> MakeNetworkRunner(
    const Session& session, std::optional<std::vector<std::string>> observed,
    bool ends_at_each) {
  if (session.program != nullptr) {
    return session.program->make({session.network, session.model_file,
                                  std::move(observed), ends_at_each});
  }
  return MakeNetworkRunner("interpreter", session.name, session.network);
}

std::vector<NamedTensor> Session::NamedInputs() const {
  if (target != nullptr) return NameInputs(target->inputs(), inputs);
  return NameInputs(*ListInputs(*network), inputs);
}

void SetFrozen(const ModelSpec& spec, InputFiles* files) {
  for (const NamedTensor& frozen : spec.freeze) files->SetFrozen(frozen.name);
}

std::vector<RunInput> CollectInputs(const InputSpec& spec,
                                    const InputList& list,
                                    const InputFiles& files,
                                    DiagnosticList* diagnostics) {
  InputCollector collector(list, files, diagnostics);
  for (const InputFile& file : spec.files) collector.Assign(file);
  for (const NamedTensor& tensor : spec.tensors) collector.Assign(tensor);
  collector.Complete(spec.seed, spec.hints);
  return collector.Inputs();
}

// Warnings about inputs are passed on, too, though they fail nothing.
absl::StatusOr<std::vector<RunInput>> CheckedInputs(
    const InputSpec& spec, const InputList& list, const InputFiles& files,
    DiagnosticList* diagnostics) {
  DiagnosticList faults;
  std::vector<RunInput> inputs = CollectInputs(spec, list, files, &faults);
  const absl::Status status = faults.ToStatus();
  for (Diagnostic& fault : faults.items()) diagnostics->Add(std::move(fault));
  NODEWISE_RETURN_IF_ERROR(status);
  return inputs;
}

absl::StatusOr<Session> OpenWithoutInputs(const TargetSpec& spec,
                                          InputFiles* files,
                                          DiagnosticList* diagnostics) {
  NODEWISE_ASSIGN_OR_RETURN(Session session, Open(spec, files, diagnostics));
  if (session.name.empty()) {
    session.name =
        session.target != nullptr ? session.target->name() : spec.path;
  }
  session.seed = spec.inputs.seed;
  NODEWISE_RETURN_IF_ERROR(StandIn(spec.stand_ins, &session));
  if (session.target == nullptr) return session;
  NoteLostOutputs(&session);
  NoteUnknownParams(&session);
  return session;
}

absl::StatusOr<Session> OpenTarget(const TargetSpec& spec,
                                   DiagnosticList* diagnostics) {
  if (spec.is_dump) {
    Session session;
    session.name = session.dump = spec.path;
    return session;
  }
  if (!spec.samples.empty()) return OpenWithSamples(spec, diagnostics);
  InputFiles files;
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            OpenWithoutInputs(spec, &files, diagnostics));
  const auto list =
      session.target == nullptr ? ListInputs(*session.network) : nullptr;
  NODEWISE_ASSIGN_OR_RETURN(
      session.inputs,
      CheckedInputs(spec.inputs,
                    list == nullptr ? session.target->inputs() : *list, files,
                    diagnostics));
  return session;
}

}  // namespace nodewise
