#include "nodewise/artefact/artefact.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <variant>

#include "absl/functional/function_ref.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/module/factory_module.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraphFile = "graph.json";
constexpr const char* kParamsFile = "params.params";
constexpr const char* kSourceFile = "lib.c";

absl::Status VisitFolder(
    const fs::path& folder,
    absl::FunctionRef<absl::Status(const fs::directory_entry&)> visit) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    NODEWISE_RETURN_IF_ERROR(visit(*at));
  }
  if (!error) return absl::OkStatus();
  return Unavailable("{}: cannot list the folder: {}", folder.string(),
                     error.message());
}

// Another user of the folder may have put a link there, to have a file of ours
// written over.
absl::Status CheckOurs(const fs::directory_entry& entry) {
  std::error_code error;
  const fs::file_status status = entry.symlink_status(error);
  if (!error && status.type() == fs::file_type::regular)
    return absl::OkStatus();
  return InvalidArgument(
      "{}: is {}, expected a file that convert left there, or none",
      entry.path().string(),
      status.type() == fs::file_type::symlink ? "a link"
                                              : "not a regular file");
}

// Other files in the folder, such as a library with functions that are not the
// graph's, would become part of the artefact. Files that a killed process left
// behind do no harm.
absl::Status Prepare(const std::string& folder, bool has_source) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) {
    return Unavailable("{}: cannot make the folder: {}", folder,
                       error.message());
  }
  return VisitFolder(folder, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (IsPartName(name)) return absl::OkStatus();
    if (name == kGraphFile || name == kParamsFile ||
        (has_source && name == kSourceFile)) {
      return CheckOurs(entry);
    }
    return InvalidArgument(
        "{}: holds {}, expected an empty folder, or what convert left there",
        folder, name);
  });
}

// The graph comes last: a folder with a graph is complete.
absl::Status WriteFiles(const fs::path& path, const ArtefactTexts& texts,
                        const Params& params) {
  if (!texts.source.empty()) {
    NODEWISE_RETURN_IF_ERROR(ReplaceFile(path / kSourceFile, texts.source));
  }
  NODEWISE_RETURN_IF_ERROR(
      ReplaceFile(path / kParamsFile, [&](const std::string& beside) {
        return WriteParams(beside, params.tensors);
      }));
  return ReplaceFile(path / kGraphFile, texts.graph);
}

// Where a folder has several files with the ending, only the preferred one can
// be told from the others.
absl::StatusOr<std::string> FileWithEnding(const fs::path& folder,
                                           const char* ending,
                                           const char* preferred) {
  std::error_code error;
  if (fs::is_regular_file(folder / preferred, error)) {
    return (folder / preferred).string();
  }
  std::vector<std::string> found;
  NODEWISE_RETURN_IF_ERROR(
      VisitFolder(folder, [&](const fs::directory_entry& entry) {
        const fs::path& path = entry.path();
        if (path.extension() == ending) found.push_back(path.string());
        return absl::OkStatus();
      }));
  std::ranges::sort(found);
  if (found.size() > 1) {
    return InvalidArgument(
        "{}: has {} files *{} ({}, ...), expected {} or a single one",
        folder.string(), found.size(), ending, found[0], preferred);
  }
  return found.empty() ? std::string() : found[0];
}

// Every dump has several files *.json, of which the first of these that exists
// counts. A dump of a VM library or of TVM itself has no source.
const char* PreferredGraph(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {kSourceGraphFile, kGraphFile, kGraphDumpFile}) {
    if (fs::is_regular_file(folder / name, error)) return name;
  }
  return kGraphFile;
}

// Returns the folder of the dump in a dump's root, which holds nothing else;
// any other folder is returned as it is.
std::string FolderOfDump(const std::string& target) {
  std::string found = target;
  size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator at(target, error), end; !error && at != end;
       at.increment(error)) {
    const std::string ending = at->path().extension().string();
    if (ending == ".json" || ending == ".so") return target;
    if (!at->path().filename().string().starts_with("_tvmdbg_device_")) {
      continue;
    }
    found = at->path().string();
    ++count;
  }
  return count == 1 ? found : target;
}

// Not all three files are needed: a library may hold the graph and the
// parameters, and a graph may need no library.
absl::StatusOr<ArtefactFiles> FindInFolder(const std::string& given) {
  ArtefactFiles files;
  const std::string target = FolderOfDump(given);
  NODEWISE_ASSIGN_OR_RETURN(
      files.graph, FileWithEnding(target, ".json", PreferredGraph(target)));
  NODEWISE_ASSIGN_OR_RETURN(files.library,
                            FileWithEnding(target, ".so", "lib.so"));
  NODEWISE_ASSIGN_OR_RETURN(files.params,
                            FileWithEnding(target, ".params", "params.params"));
  if (!files.graph.empty() || !files.library.empty()) return files;
  return NotFound(
      "{}: holds no artefact, expected graph.json with lib.so and "
      "params.params, or a factory or VM library",
      target);
}

// The file's parameters come last, so that they count where the library has one
// of the same name.
absl::Status AddParamsFile(const ArtefactFiles& files, Params* params) {
  if (files.params.empty()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(Params more, OpenParams(files.params));
  for (NamedTensor& tensor : more.tensors) {
    params->tensors.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

// The factory keeps its graph as text and hands it out through a function, as
// TVM's does. Its first import is the code.
absl::StatusOr<Artefact> FromFactory(const ArtefactFiles& files,
                                     const Ref<Module>& root) {
  Module* factory = nullptr;
  for (Module* module : root->Tree()) {
    if (module->kind() != "GraphExecutorFactory") continue;
    factory = module;
    break;
  }
  if (factory == nullptr || factory->imports().empty()) {
    return InvalidArgument(
        "{}: holds no graph (it is compiled code alone; open its graph JSON, "
        "with this as {})",
        files.library, NameOf(Way::kLibraryFile));
  }
  Artefact artefact;
  NODEWISE_ASSIGN_OR_RETURN(PackedFunc get_json,
                            factory->GetFunction("get_graph_json"));
  NODEWISE_ASSIGN_OR_RETURN(const Value json, get_json.Call());
  NODEWISE_ASSIGN_OR_RETURN(artefact.graph, ParseGraph(GraphText::FromString(
                                                files.library + ": graph JSON",
                                                *json.Get<std::string>())));
  artefact.params.tensors = FactoryParams(*factory);
  NODEWISE_RETURN_IF_ERROR(AddParamsFile(files, &artefact.params));
  artefact.library = LibraryOf(factory->imports()[0]);
  return artefact;
}

absl::Status ComputeDims(Module& root, std::string_view kernel,
                         absl::Span<int64_t> heap) {
  NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function,
                            root.FindFunction(kernel));
  if (!function) return NotFound("the library has no function {}", kernel);
  const int64_t size[] = {static_cast<int64_t>(heap.size())};
  NODEWISE_ASSIGN_OR_RETURN(const NDArray numbers,
                            NDArray::Empty(size, kInt64, kCpu));
  const size_t bytes = heap.size() * sizeof(int64_t);
  NODEWISE_RETURN_IF_ERROR(CopyFromBytes(heap.data(), bytes, *numbers));
  NODEWISE_RETURN_IF_ERROR(function.Call(numbers).status());
  return CopyToBytes(*numbers, heap.data(), bytes);
}

// The library is loaded first only where its kernels must compute dimensions;
// otherwise the graph is made first, which runs none of its code.
absl::StatusOr<Artefact> FromBytecode(const ArtefactFiles& files,
                                      const VmLibrary& library,
                                      absl::Span<const VmInputType> given) {
  VmBinding binding;
  Ref<Module> root;
  if (!given.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(root, LoadModule(files.library));
    binding.inputs.assign(given.begin(), given.end());
    binding.compute = [&root](std::string_view kernel,
                              absl::Span<int64_t> heap) {
      return ComputeDims(*root, kernel, heap);
    };
  }
  Artefact artefact;
  NODEWISE_ASSIGN_OR_RETURN(VmGraph made,
                            ReadVmGraph(library, files.function, binding));
  artefact.graph = std::move(made.graph);
  artefact.params = std::move(made.params);
  NODEWISE_RETURN_IF_ERROR(AddParamsFile(files, &artefact.params));
  if (!root) {
    NODEWISE_ASSIGN_OR_RETURN(root, LoadModule(files.library));
  }
  artefact.library = LibraryOf(root);
  return artefact;
}

// Returns the bytecode of a library that is a target by itself, or null.
// Loading reports a file that is not a library at all.
absl::StatusOr<std::unique_ptr<VmLibrary>> FindBytecode(
    const ArtefactFiles& files) {
  if (!files.graph.empty() || files.library.empty()) return nullptr;
  auto library = OpenVmLibrary(files.library);
  if (library.ok() || absl::IsDataLoss(library.status())) return library;
  return nullptr;
}

// Returns the functions of a graph whose file is by itself. A library beside a
// graph with built-in functions takes their place.
absl::StatusOr<Ref<Library>> LibraryFor(const ArtefactFiles& files,
                                        const Graph& graph,
                                        const Ref<Module>& root,
                                        const Ref<Library>& built_ins) {
  if (root) return LibraryOf(root);
  if (!HasBuiltInFunctions(graph)) {
    return InvalidArgument("{}: no compiled library beside it (name it: {})",
                           files.graph, NameOf(Way::kLibraryFile));
  }
  if (built_ins) return built_ins;
  return FailedPrecondition(
      "{}: its functions are nodewise's own, and this program has none "
      "(`nodewise run` of a build with USE_ONNX has them)",
      files.graph);
}

// `part` points into the mapped file, so its offset there is its place in
// `copy`.
void Fill(const VmLibrary& library, const void* part, size_t size, char with,
          std::string* copy) {
  const auto at = static_cast<const char*>(part) - library.file->text().data();
  std::fill_n(copy->begin() + at, size, with);
}

// Only bytes are written over and none are moved, so that every offset in the
// file stays right.
void OverwriteBytecode(const VmLibrary& library, std::string* copy) {
  for (const VmConstant& constant : library.executable.constants) {
    const auto* const tensor = std::get_if<TensorRecord>(&constant);
    if (tensor == nullptr) continue;
    Fill(library, tensor->data.data(), tensor->data.size(), '\0', copy);
  }
  for (const VmFunction& function : library.executable.functions) {
    for (const std::string_view param : function.params) {
      Fill(library, param.data(), param.size(), '_', copy);
    }
  }
}

}  // namespace

absl::Status WriteArtefactFolder(const std::string& folder,
                                 const ArtefactTexts& texts,
                                 const Params& params) {
  NODEWISE_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(folder));
  NODEWISE_RETURN_IF_ERROR(Prepare(folder, !texts.source.empty()));
  const absl::Status status = WriteFiles(folder, texts, params);
  if (status.ok()) {
    made.Keep();
  } else if (!absl::IsInvalidArgument(status)) {
    // Parameters beside the graph of another network would be worse than none.
    std::error_code ignored;
    fs::remove(fs::path(folder) / kGraphFile, ignored);
  }
  return status;
}

// A library or parameters that the user names take the place of those that were
// found.
absl::StatusOr<ArtefactFiles> FindArtefact(const std::string& target,
                                           const std::string& library,
                                           const std::string& params) {
  std::error_code error;
  ArtefactFiles files;
  if (fs::is_directory(target, error)) {
    NODEWISE_ASSIGN_OR_RETURN(files, FindInFolder(target));
  } else if (!fs::exists(target, error)) {
    return NotFound("{}: no such file or folder", target);
  } else if (fs::path(target).extension() == ".json") {
    files.graph = target;
  } else {
    files.library = target;
  }
  files.target = target;
  if (!library.empty()) files.library = library;
  if (!params.empty()) files.params = params;
  return files;
}

absl::StatusOr<Artefact> LoadArtefact(const ArtefactFiles& files,
                                      absl::Span<const VmInputType> given,
                                      const Ref<Library>& built_ins) {
  const WorkingOn on(files.target);
  NODEWISE_ASSIGN_OR_RETURN(const auto bytecode, FindBytecode(files));
  if (bytecode != nullptr) return FromBytecode(files, *bytecode, given);
  if (!files.function.empty()) {
    return InvalidArgument(
        "{}: is not a VM library, so it has no function {} to choose (leave "
        "out {})",
        files.target, files.function, NameOf(Way::kFunction));
  }
  Ref<Module> root;
  if (!files.library.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(root, LoadModule(files.library));
  }
  if (files.graph.empty()) return FromFactory(files, root);
  Artefact artefact;
  NODEWISE_ASSIGN_OR_RETURN(GraphText text, GraphText::FromFile(files.graph));
  NODEWISE_ASSIGN_OR_RETURN(artefact.graph, ParseGraph(std::move(text)));
  NODEWISE_ASSIGN_OR_RETURN(artefact.library,
                            LibraryFor(files, artefact.graph, root, built_ins));
  if (!files.params.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(artefact.params, OpenParams(files.params));
  }
  return artefact;
}

// Parameters come last: only the executor knows which inputs there are.
absl::StatusOr<std::unique_ptr<GraphExecutor>> CreateExecutor(
    const ArtefactFiles& files, GraphExecutor::Options options) {
  NODEWISE_ASSIGN_OR_RETURN(Artefact artefact, LoadArtefact(files));
  NODEWISE_ASSIGN_OR_RETURN(
      std::unique_ptr<GraphExecutor> executor,
      GraphExecutor::Create(std::move(artefact.graph), artefact.library,
                            std::move(options)));
  NODEWISE_RETURN_IF_ERROR(executor->LoadParams(artefact.params).status());
  return executor;
}

absl::StatusOr<std::string> WithErasedNetwork(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(std::string bytes, WithErasedFactories(path));
  const auto library = OpenVmLibrary(path);
  // A damaged VM library is refused when it is loaded.
  if (library.ok() && *library != nullptr) OverwriteBytecode(**library, &bytes);
  return bytes;
}

}  // namespace nodewise
