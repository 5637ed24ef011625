#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/onnx/attributes.h"
#include "contrib/onnx/constant_folder.h"
#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/external_data.h"
#include "contrib/onnx/glow_types.h"
#include "contrib/onnx/model_links.h"
#include "contrib/onnx/node_origin.h"
#include "contrib/onnx/onnx_types.h"
#include "nodewise/ir/network.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// The newest known version of the format of models.
inline constexpr int64_t kNewestIr = 14;

// Versions by domain, as the model states them; they may be newer than any that
// is known.
using Opsets = std::map<std::string, int>;
// Returns the version by which operators are found: `version`, or the newest of
// the domain that is known.
inline int KnownOpset(std::string_view domain, int version) {
  return domain.empty() && version > kNewestOpset ? kNewestOpset : version;
}

// "" for ONNX's own domain under either of its names.
std::string DomainOf(std::string_view domain);
// "com.microsoft.Gelu", shortened for messages.
std::string OperatorName(const proto::Node& node);
// Returns "node out (Gemm, opset 13)"; opset 0 means a domain not imported.
std::string WhereOf(const proto::Node& node, std::string_view name, int opset);
// Returns the node's name, or one made of its operator and number if it has
// none.
std::string NameOf(const proto::Node& node, size_t index);

// What the parts of one import share.
struct ImportState {
  ImportState(const OpSet& op_set, const ImportOptions& import_options,
              DiagnosticList* diagnostic_list, std::string model,
              TensorReader reader)
      : ops(op_set),
        options(import_options),
        diagnostics(*diagnostic_list),
        where(std::move(model)),
        tensors(std::move(reader)),
        folder(import_options.fold_shapes) {}

  const OpSet& ops;
  const ImportOptions& options;
  DiagnosticList& diagnostics;
  std::string where;  // The model, in diagnostics.
  TensorReader tensors;
  DimSizes dims;
  Opsets opsets;
  // By domain, name and overload.
  std::map<std::tuple<std::string, std::string, std::string>,
           const proto::Function*>
      functions;
  ConstantFolder folder;
  size_t errors = 0;   // This import's, in `diagnostics`.
  size_t depth = 0;    // Depth of nested calls and bodies.
  std::string within;  // Begins their paths: the bodies around.
  static constexpr size_t kMostDepth = 64;
  std::map<const proto::Function*, Opsets> function_opsets;
  LateMakers late_makers;
  NodeOrders orders;
  // If not null: the network is thrown away, and only what the model states
  // otherwise than it is goes here, with paths. Nothing is folded then, since
  // the specification infers no types from what would have to be computed.
  std::vector<Diagnostic>* misstated = nullptr;
  // A few calls of functions can make many nodes: this many are still allowed.
  size_t nodes_left = 50'000;
  size_t name_bytes_left = size_t{64} << 20;
  // What opaque operations in functions may hold, which is there once for each
  // call.
  size_t opaque_bytes_left = size_t{1} << 30;
  OriginReader origins;
  // Operators of which it has been said that they are taken as older ones.
  std::set<std::string, std::less<>> taken_as_older;
  // What has been said of operators, each thing once: the nodes that it is
  // about, and its place in `diagnostics`.
  struct OfOperator {
    std::string within, name;
    std::optional<size_t> diagnostic;  // None: the list is full.
    std::vector<std::string> nodes;
    bool is_error = false;
  };
  // By `within`, the operator, what was found and what was expected.
  std::map<std::tuple<std::string, std::string, std::string, std::string>,
           OfOperator>
      of_operators;

  void Add(const FindingKind& kind, Severity severity, const std::string& path,
           std::string found, std::string expected, std::string hint = "");
  // About names, types and attributes.
  void Error(const std::string& path, std::string found,
             std::string expected = "", std::string hint = "");
  void Error(const std::string& path, const absl::Status& status);
  void Warning(const std::string& path, std::string found,
               std::string expected);
  // About what reads what.
  void StructureError(const std::string& path, std::string found,
                      std::string expected = "", std::string hint = "") {
    Add(network_kinds::kInvalidStructure, Severity::kError, path,
        std::move(found), std::move(expected), std::move(hint));
  }
  // Says something of a node that is to be said of all nodes of its operator
  // together: if it has been said of another node, this one is only counted.
  void AddOfOperator(const FindingKind& kind, const std::string& where,
                     const std::string& node, const std::string& name,
                     Severity severity, std::string found,
                     std::string expected);
  // Names all nodes of what was said so.
  void CountOfOperators();

 private:
  // Returns the place of the diagnostic in the list; none: that is full.
  std::optional<size_t> Add(const FindingKind& kind, Diagnostic diagnostic);
};

// While it exists, imported nodes are in a body, named by `where`.
class InBody {
 public:
  InBody(ImportState* state, const std::string& where)
      : state_(*state), outer_(state->within.size()) {
    ++state_.depth;
    state_.within += where + ": ";
  }
  ~InBody() {
    --state_.depth;
    state_.within.resize(outer_);
  }
  InBody(const InBody&) = delete;
  InBody& operator=(const InBody&) = delete;

 private:
  ImportState& state_;
  size_t outer_;  // Characters.
};

// What a name in a model stands for in the network.
struct Binding {
  ValueId value = kNoValue;  // Or an optional input that was not given.
  // Its producer has a fault, which has been reported.
  bool is_broken = false;
};

// Names, each given once; those that are taken get a number.
class NameSet {
 public:
  void Reserve(const std::string& name) { taken_.emplace(name, 1); }
  std::string Unique(std::string name);

 private:
  std::map<std::string, size_t> taken_;  // With the last number appended to it.
};

class GraphImporter;

// The names that a node may read: those of a graph, of one call of a function
// or of a branch that is always taken. A body also sees the names around it.
struct Scope {
  Scope* outer = nullptr;                // The body's surroundings.
  GraphImporter* outer_graph = nullptr;  // For a taken branch: this graph.
  std::map<std::string, Binding, std::less<>> values;
  // For a call or a taken branch: the prefix of the names in it, the functions
  // that it is in, its attributes, and the names that its outputs have outside.
  std::string prefix;
  std::vector<const proto::Function*> calls;
  std::map<std::string, const proto::Attribute*, std::less<>> attributes;
  std::map<std::string, std::string, std::less<>> renamed;
  const Opsets* opsets = nullptr;
  // For a call or a taken branch: where the node is from that stands for it.
  std::shared_ptr<const Origin> origin = nullptr;
};

// Makes a network of one graph: the model's, or a body of control flow.
// Diagnostics go into the state; after a fault the network differs from the
// graph.
class GraphImporter {
 public:
  GraphImporter(ImportState* state, std::string name);

  // `scope` has its outer parts set; `input_types` are used for inputs of a
  // body for which it states no type.
  void Import(const proto::Graph& graph,
              absl::Span<const TensorType> input_types, Scope* scope);

  Network& network() { return network_; }
  // Returns, for each input after the graph's own, the value around the graph
  // that it stands for.
  const std::vector<ValueId>& captures() const { return captures_; }

 private:
  // graph_importer.cc
  void ReserveNames(const proto::Graph& graph);
  void AddInputs(const proto::Graph& graph,
                 absl::Span<const TensorType> input_types, Scope* scope);
  const proto::ValueInfo& StatedLast(const proto::Graph& graph,
                                     const proto::ValueInfo& input) const;
  void AddInput(const proto::ValueInfo& info, size_t index,
                const TensorType& fallback, Scope* scope);
  void AddConstants(const proto::Graph& graph, Scope* scope);
  void SetOutputs(const proto::Graph& graph, Scope* scope);
  void CheckTypes(const proto::Graph& graph, const Scope& scope);
  void CheckStated(const proto::Graph& graph, const Scope& scope);
  void Misstated(const std::string& path, std::string found,
                 std::string expected);
  DimSizes* DimsOf(const Scope& scope);
  bool Freeze(const std::string& name, const TensorType& type, Scope* scope);
  Binding Capture(const Binding& outer, const GraphImporter& from);
  // Returns null if nothing has that name.
  const Binding* Find(Scope* scope, const std::string& name);
  std::string UniqueName(NameSet* names, std::string name);
  Binding AddConstant(const std::string& where, std::string name, NDArray data,
                      std::vector<std::string> folded_from = {});

  // What has been read of a node so far.
  struct NodeParts {
    const OperatorDef* def = nullptr;
    // There is no `def`, and the node becomes opaque.
    bool is_opaque = false;
    std::string name;
    std::string where;
    int opset = 0;
    std::vector<NamedAttr> attrs;
    std::vector<std::pair<std::string, const proto::Graph*>> bodies;
    std::vector<ValueId> inputs;
  };

  // node_importer.cc
  void ImportNode(const proto::Node& node, size_t index, Scope* scope);
  void ImportConstant(const proto::Node& node, const std::string& where,
                      Scope* scope);
  void ImportOperation(const proto::Node& node, NodeParts* parts, Scope* scope);
  bool ReadInputs(const proto::Node& node, NodeParts* parts, Scope* scope);
  void CheckInputTypes(const proto::Node& node, const NodeParts& parts);
  void ReportMissing(const proto::Node& node, const std::string& name,
                     int input, const std::string& where);
  bool ReadAttributes(const proto::Node& node, NodeParts* parts, Scope* scope);
  static void DropUnchecked(const proto::Node& node, NodeParts* parts);
  void TakeFlag(NodeParts& parts);
  bool MoveAttribute(const MovedAttribute& moved, NodeParts* parts);
  void AddSeed(NodeParts* parts) const;
  bool AddMoved(NodeParts* parts);
  bool AddBodies(NodeParts* parts, Scope* scope);
  static void PadInputs(NodeParts* parts, bool has_captures);
  void AddOperation(const proto::Node& node, OpAttrs attrs,
                    std::vector<std::string> outputs, NodeParts* parts,
                    Scope* scope);
  std::shared_ptr<const Origin> OriginOf(const proto::Node& node,
                                         const Scope& scope);
  std::vector<Binding> FoldOutputs(OperationId id, const std::string& where);
  std::vector<std::string> OutputNames(const proto::Node& node,
                                       const Scope& scope);
  void Bind(const proto::Node& node, size_t output, Binding binding,
            const std::string& where, Scope* scope);
  void BreakOutputs(const proto::Node& node, const std::string& where,
                    Scope* scope);
  std::string NodeName(const proto::Node& node, size_t index,
                       const Scope& scope);

  // operator_finder.cc
  void FindOperator(const proto::Node& node, Scope* scope, NodeParts* parts);
  void WarnIfDeprecated(const OperatorDef& row, int opset,
                        const NodeParts& parts);
  void WarnIfNewer(const OperatorDef& row, int opset);
  // Whether a node's domain has a version, and that of the model.
  struct DomainUse {
    bool is_imported = false;
    bool is_of_model = false;
  };
  void TakeUnknown(const proto::Node& node, DomainUse use, Scope* scope,
                   NodeParts* parts);
  std::string KnownOnnx(const std::string& name) const;
  void ReportNotImported(const proto::Node& node, const NodeParts& parts);

  // opaque_importer.cc
  void ImportOpaque(const proto::Node& node, std::vector<std::string> outputs,
                    NodeParts* parts, Scope* scope);
  void Refuse(const absl::Status& why, const proto::Node& node,
              std::vector<std::string> outputs, NodeParts* parts, Scope* scope);
  bool KeepsOpaque(bool is_of_model) const;
  absl::StatusOr<ops::Opaque> MakeOpaque(const proto::Node& node,
                                         const Scope& scope);
  bool ReadCaptures(const proto::Node& node,
                    const std::vector<std::string>& names, NodeParts* parts,
                    Scope* scope);
  absl::StatusOr<std::vector<TensorType>> StatedTypes(
      const std::vector<std::string>& outputs, const Scope& scope);
  void StateTypes(const proto::Graph& graph, const Scope& scope);
  bool IsAmongTensors(const proto::Node& node, Scope* scope);

  // body_importer.cc
  std::optional<Subgraph> ImportBody(const proto::Graph& graph,
                                     absl::Span<const TensorType> types,
                                     const std::string& where, Scope* scope,
                                     std::vector<ValueId>* captures);
  std::string HowToRuleOut(ValueId condition) const;
  void HintAtFreezing(ValueId condition, size_t first);
  const proto::Graph* TakenBranch(const proto::Node& node, Scope* scope);
  void ImportBranch(const proto::Graph& branch, const proto::Node& node,
                    const std::string& name, const std::string& where,
                    Scope* scope);

  // contrib_importer.cc
  const ContribFunction* FindContrib(const proto::Node& node);
  void ImportContrib(const ContribFunction& function, const proto::Node& node,
                     const std::string& name, const std::string& where,
                     Scope* scope);
  void ImportContrib(
      const ContribFunction& function, const proto::Node& node,
      const std::string& name, const std::string& where, Scope* scope,
      absl::FunctionRef<const proto::Attribute*(std::string_view)> attribute,
      absl::Span<const FunctionAttribute> more_attributes);

  // glow_importer.cc
  static std::string_view GlowName(const proto::Node& node);
  void ReadGlow(const proto::Graph& graph);
  bool ImportGlow(const proto::Node& node, const NodeParts& parts,
                  Scope* scope);
  void NoteCall(const ContribFunction& row, const proto::Node& node,
                const std::string& name, const Scope& scope);

  // function_importer.cc
  void ImportCall(const proto::Function& function, const proto::Node& node,
                  const std::string& name, const std::string& where,
                  Scope* scope);
  bool CheckCall(const proto::Function& function, const proto::Node& node,
                 const std::string& where, const Scope& scope);
  bool BindInputs(const proto::Function& function, const proto::Node& node,
                  const std::string& where, Scope* inner, Scope* scope);
  bool BindAttributes(const proto::Function& function, const proto::Node& node,
                      const std::string& where, Scope* inner,
                      const Scope& scope);
  void BindResults(const proto::Function& function, const proto::Node& node,
                   absl::Span<const std::string> names,
                   const std::string& where, const Scope& inner, Scope* scope);
  Binding Named(const Binding& result, const std::string& name,
                const std::string& where, const Scope& inner);

  ImportState& state_;
  Network network_;
  NameSet names_;  // Names of values.
  NameSet node_names_;
  // What the model states about values, by their names in the network.
  std::map<std::string, const proto::ValueInfo*, std::less<>> stated_;
  std::vector<ValueId> captures_;
  // Whether Glow wrote the model, and if so the types of its values and the
  // names that something reads.
  bool is_glow_ = false;
  GlowTypes glow_types_;
  std::set<std::string, std::less<>> glow_read_;
};

}  // namespace nodewise
