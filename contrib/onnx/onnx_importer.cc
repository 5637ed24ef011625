// Reads a model: its versions, functions and what the caller asks for, and then
// its graph (graph_importer.cc), with checks of the whole before and after it.

#include <algorithm>
#include <climits>
#include <filesystem>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "contrib/onnx/onnx_messages.h"
#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The first format whose models name their operators' versions.
constexpr int64_t kOldestIr = 3;
// The operators' own rows say which of them exist that early.
constexpr int kOldestOpset = 1;
// More names are not listed in a message, which is one line.
constexpr size_t kMostNames = 8;

template <typename Imports>
Opsets ReadOpsets(const Imports& imports, const std::string& where,
                  ImportState* state) {
  Opsets opsets;
  for (const proto::OperatorSetId& import : imports) {
    const std::string domain = DomainOf(import.domain());
    const int64_t version = import.version();
    // Models number domains of their own from 0 on.
    const int oldest = domain.empty() ? kOldestOpset : 0;
    if (version < oldest || version > INT_MAX) {
      state->Error(
          where,
          fmt::format("opset of {} is {}",
                      domain.empty() ? "ai.onnx" : Shortened(domain), version),
          domain.empty() ? fmt::format("{} or more", oldest)
                         : std::string("a version"));
    }
    const auto known =
        static_cast<int>(std::clamp<int64_t>(version, 1, INT_MAX));
    const auto [entry, is_new] = opsets.emplace(domain, known);
    // Models that exporters have joined from parts import a domain again. If
    // the versions differ, ONNX's checker and onnxruntime take the last.
    if (!is_new && entry->second != known) {
      state->Warning(
          where,
          fmt::format("domain \"{}\" is imported as {} and as {}",
                      Shortened(import.domain()), entry->second, version),
          "one version (the last is taken)");
      entry->second = known;
    }
  }
  return opsets;
}

void ReadVersions(const proto::Model& model, ImportState* state) {
  if (model.ir_version() < kOldestIr) {
    state->Error("ir_version", fmt::format("is {}", model.ir_version()),
                 fmt::format("{} or more", kOldestIr));
  } else if (model.ir_version() > kNewestIr) {
    state->Warning("ir_version",
                   fmt::format("is {}, which is newer than what is known",
                               model.ir_version()),
                   fmt::format("{} to {} (the model is read as one of {})",
                               kOldestIr, kNewestIr, kNewestIr));
  }
  state->opsets = ReadOpsets(model.opset_import(), "opset_import", state);
  // What operators of these domains mean is told in those of ONNX's main one,
  // which such a model need not name.
  if (state->opsets.contains(kContribDomain) ||
      state->opsets.contains(kClassicDomain)) {
    state->opsets.emplace("", kNewestOpset);
  }
}

// Glow's operators are written in ONNX's of the opset that their rows need,
// regardless of the model's. The model's would matter only to the Identity
// nodes beside them, which mean the same in all opsets.
void SetOpsetOfGlow(const proto::Graph& graph, ImportState* state) {
  if (!IsGlow(graph)) return;
  int opset = kGlowOpset;
  for (const proto::Node& node : graph.node()) {
    const std::string_view name = node.op_type();
    if (name.starts_with(kGlowPrefix)) {
      const ContribFunction* const row = FindContribFunction(
          kGlowDomain, name.substr(kGlowPrefix.size()), kNewestOpset);
      if (row != nullptr) opset = std::max(opset, row->opset);
    } else if (name != "Identity") {
      // A model that mixes both is not one of Glow's; its operators mean what
      // its opset says.
      return;
    }
  }
  state->opsets[""] = opset;
}

// A function may have several forms under one name, told apart by `overload`.
void ReadFunctions(const proto::Model& model, ImportState* state) {
  for (const proto::Function& function : model.functions()) {
    const std::string where =
        fmt::format("function {}", Shortened(function.name()));
    Opsets opsets = ReadOpsets(function.opset_import(), where, state);
    // Opsets that the function does not state are those of the model.
    opsets.insert(state->opsets.begin(), state->opsets.end());
    state->function_opsets.emplace(&function, std::move(opsets));
    const bool is_new =
        state->functions
            .emplace(std::tuple(DomainOf(function.domain()), function.name(),
                                function.overload()),
                     &function)
            .second;
    if (!is_new) state->Error(where, "is there twice", "every function once");
  }
}

void ReadDims(ImportState* state) {
  for (const auto& [name, size] : state->options.dims) {
    const std::string where = fmt::format("dimension {}", Shortened(name));
    if (size < 0) {
      state->Error(where, fmt::format("is given as {}", size), "0 or more");
    }
    const auto [entry, is_new] = state->dims.sizes.emplace(name, size);
    if (!is_new && entry->second != size) {
      state->Error(where,
                   fmt::format("is given as {} and as {}", entry->second, size),
                   "one size");
    }
  }
}

// A named side of a frozen input gets the tensor's size everywhere. If that
// contradicts the given size, or that of another frozen input, the input does
// not fit, which is reported later.
void BindFrozenDims(const proto::Graph& graph, ImportState* state) {
  for (const auto& input : graph.input()) {
    for (const NamedTensor& entry : state->options.freeze) {
      if (entry.name != input.name()) continue;
      DimSizes unbound;
      const auto type = ReadType(input.type(), &unbound);
      const auto sizes = entry.tensor.shape();
      if (!type.ok() || !type->has_rank() ||
          type->shape->size() != sizes.size()) {
        continue;
      }
      for (size_t i = 0; i < sizes.size(); ++i) {
        const std::string& name = (*type->shape)[i].name();
        if (!name.empty()) state->dims.sizes.emplace(name, sizes[i]);
      }
      state->dims.names.merge(unbound.names);
    }
  }
}

std::string ListedAs(const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format(" ({})", ListOf(names, kMostNames));
}

// Returns what is expected instead if `name` is INPUT:SIDE and means a side
// that has a name, or a size.
std::optional<std::string> NameOfSideAt(const proto::Graph& graph,
                                        std::string_view name) {
  for (const auto& input : graph.input()) {
    const auto& sides = input.type().tensor_type().shape().dim();
    for (int i = 0; i < sides.size(); ++i) {
      const auto side = static_cast<size_t>(i);
      if (name != NameOfSide(input.name(), side, Dim())) continue;
      if (sides[i].has_dim_value()) {
        return fmt::format("the name of a dimension (that side is {})",
                           sides[i].dim_value());
      }
      return fmt::format("{}, which is what that side is called",
                         Shortened(sides[i].dim_param()));
    }
  }
  return std::nullopt;
}

// Reports requested names that do not exist or are ambiguous.
void CheckOptions(const proto::Graph& graph, ImportState* state) {
  const std::vector<std::string> dims(state->dims.names.begin(),
                                      state->dims.names.end());
  for (const auto& [name, size] : state->dims.sizes) {
    if (state->dims.names.contains(name)) continue;
    state->Error(fmt::format("dimension {}", Shortened(name)),
                 "is not in the model",
                 NameOfSideAt(graph, name)
                     .value_or("the name of a dimension" + ListedAs(dims) +
                               DidYouMean(name, dims)));
  }
  std::vector<std::string> names;
  for (const auto& input : graph.input()) names.push_back(input.name());
  const std::string inputs = ListedAs(names);
  for (const auto& tensor : graph.initializer()) names.push_back(tensor.name());
  std::set<std::string_view> frozen;
  for (const NamedTensor& entry : state->options.freeze) {
    if (!frozen.insert(entry.name).second) {
      state->Error(fmt::format("input {}", Shortened(entry.name)),
                   "is frozen twice", "once");
    }
    if (IsIn(names, entry.name)) continue;
    state->Error(
        fmt::format("input {}", Shortened(entry.name)),
        "is not in the model and cannot be frozen",
        "the name of an input" + inputs + DidYouMean(entry.name, names));
  }
}

absl::StatusOr<Network> ImportModel(const proto::Model& model,
                                    ImportState* state);

// Types that the model states are compared with those of a second import, which
// folds nothing.
void CheckStatedTypes(const proto::Model& model, ImportState* state) {
  if (!HasOnlyDefinedOperators(model)) return;
  ImportOptions options = state->options;
  options.fold_shapes = false;
  options.report_unused = false;
  options.check_specification = false;
  options.kinds = nullptr;
  options.calls = nullptr;
  DiagnosticList known;
  std::vector<Diagnostic> misstated;
  ImportState inner{state->ops, options, known, state->where, state->tensors};
  inner.misstated = &misstated;
  static_cast<void>(ImportModel(model, &inner));
  // The first import had no errors, so that those of this one follow from types
  // that are stated otherwise than they are.
  if (state->errors == 0) {
    for (const Diagnostic& each : known.items()) {
      if (each.severity == Severity::kError) misstated.push_back(each);
    }
  }
  std::set<std::string> faulty;
  for (const Diagnostic& each : state->diagnostics.items()) {
    if (each.severity == Severity::kError) faulty.insert(each.path);
  }
  for (const Diagnostic& each : misstated) {
    if (!faulty.insert(each.path).second) continue;
    state->Error(each.path, each.found, each.expected);
  }
}

// The order matters: links are looked at before any operator, since a node in a
// cycle has no types, and options after the import, which collects the names
// that they may have.
absl::StatusOr<Network> ImportModel(const proto::Model& model,
                                    ImportState* state) {
  ReadVersions(model, state);
  SetOpsetOfGlow(model.graph(), state);
  ReadFunctions(model, state);
  ReadDims(state);
  BindFrozenDims(model.graph(), state);
  if (!model.has_graph()) {
    state->StructureError("graph", "is missing", "one");
  }
  CheckLinks(model, state);
  if (model.training_info_size() > 0) {
    state->Warning("training_info", "is left out", "inference alone");
  }
  GraphImporter importer(state, model.graph().name());
  Scope scope;
  scope.opsets = &state->opsets;
  importer.Import(model.graph(), {}, &scope);
  CheckOptions(model.graph(), state);
  const bool is_whole = state->errors == 0;
  // Glow's operators are none of ONNX's.
  if (state->options.check_specification && !IsGlow(model.graph())) {
    CheckSpecification(model, state);
    CheckStatedTypes(model, state);
  }
  state->CountOfOperators();
  // Faults that are only against the specification do not keep the rest from
  // being checked.
  if (!is_whole) return state->diagnostics.ToStatus();
  return std::move(importer.network());
}

}  // namespace

absl::StatusOr<Network> ImportOnnx(absl::Span<const uint8_t> bytes,
                                   std::string where, std::string folder,
                                   const OpSet& ops,
                                   const ImportOptions& options,
                                   DiagnosticList* diagnostics) {
  const WorkingOn on(where);
  NODEWISE_ASSIGN_OR_RETURN(auto model, ParseModel(bytes, where));
  ImportState state{ops, options, *diagnostics, where,
                    TensorReader(model, std::move(folder))};
  return ImportModel(*model, &state);
}

absl::StatusOr<Network> ImportOnnx(const std::string& path, const OpSet& ops,
                                   const ImportOptions& options,
                                   DiagnosticList* diagnostics) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  // No folder would mean that there may be no data in other files.
  std::string folder = std::filesystem::path(path).parent_path();
  return ImportOnnx(file.bytes(), path, folder.empty() ? "." : folder, ops,
                    options, diagnostics);
}

}  // namespace nodewise
