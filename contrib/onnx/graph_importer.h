#pragma once

#include <cstdint>
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
#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/onnx_messages.h"
#include "nodewise/ir/network.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {

// What Glow's models say about the types of values: in attributes of nodes
// (i0_elemKind, o0_qScale, ...) and in the notes of inputs and constants
// ("$elemKind:i8$qScale:0.5$qOffset:-3").
struct GlowType {
  std::string kind;  // "float", "i8", "index64", "ui8fused", ...
  float scale = 0;
  int64_t offset = 0;

  // Whether the numbers are integers that a scale and an offset turn into
  // others.
  bool is_quantized() const;
  // Whether they are rows of bytes with a scale and an offset behind each.
  bool is_fused() const { return kind.find("fused") != std::string::npos; }
};

// Whether a graph has nodes that Glow writes as its own.
bool IsGlow(const proto::Graph& graph);

// The types of a graph's values, by name.
using GlowTypes = std::map<std::string, GlowType, std::less<>>;
GlowTypes GlowTypesOf(const proto::Graph& graph);

// Computes an operation that does not depend on the network's inputs: mainly
// shapes, so that operators that take one as a tensor know it. Returns the
// outputs by slot (undefined: not wanted), if they are known before the network
// runs; none otherwise, and for what is large or would need more than
// `work_left` operations on elements, from which it takes what it spends.
std::optional<std::vector<NDArray>> FoldOperation(const Network& network,
                                                  OperationId id,
                                                  double* work_left);

struct ImportState;

// Why a node cannot read a name that a node makes.
struct LateMaker {
  std::string node;  // Which makes it, and runs no earlier than its reader.
  // Both are on a cycle, which has been reported.
  bool is_in_cycle = false;
};
// By reader and name.
using LateMakers =
    std::map<std::pair<const proto::Node*, std::string>, LateMaker>;

// The nodes of a list in an order in which they can run, by the list; those
// that are not here can run as they stand.
using NodeOrders = std::map<const void*, std::vector<int>>;

// Looks at the links of a whole model, its functions and bodies too, before any
// operator is known: reports every cycle as the path along which it runs and,
// if the options ask for it, what no output depends on. Fills in
// ImportState::late_makers and ImportState::orders, and says of which lists the
// nodes had to be sorted.
void CheckLinks(const proto::Model& model, ImportState* state);

// Adds an error for everything in the model that is against ONNX's
// specification although it can be imported: attributes that an operator does
// not have in its opset, fields that are missing or there twice, numbers of
// inputs. A part that has an error already gets no second one.
void CheckSpecification(const proto::Model& model, ImportState* state);

// Whether ONNX defines all operators of the model, or the model does.
bool HasOnlyDefinedOperators(const proto::Model& model);

// The newest known version of the format of models.
inline constexpr int64_t kNewestIr = 14;

// Versions by domain, as the model states them; they may be newer than any that
// is known.
using Opsets = std::map<std::string, int, std::less<>>;
// Returns the version by which operators are found: `version`, or the newest of
// the domain that is known.
inline int KnownOpset(std::string_view domain, int version) {
  return domain.empty() && version > kNewestOpset ? kNewestOpset : version;
}
// Returns that of the domain; 0 if the domain is not imported.
int KnownOpset(const Opsets& opsets, std::string_view domain);

// "" for ONNX's own domain under either of its names.
std::string DomainOf(std::string_view domain);
// "com.microsoft.Gelu", shortened for messages.
std::string OperatorName(const proto::Node& node);
// Returns "node out (Gemm, opset 13)"; opset 0 means a domain not imported.
std::string NodeLocation(const proto::Node& node, std::string_view name,
                         int opset);
// Returns the node's name, or one made of its operator and number if it has
// none.
std::string NameOf(const proto::Node& node, size_t index);

// What the parts of one import share.
struct ImportState {
  const OpSet& ops;
  const ImportOptions& options;
  DiagnosticList& diagnostics;
  std::string where;  // The model, in diagnostics.
  TensorReader tensors;
  DimSizes dims = {};
  Opsets opsets = {};
  // By domain, name and overload.
  std::map<std::tuple<std::string, std::string, std::string>,
           const proto::Function*>
      functions = {};
  double fold_work_left = 2e8;  // See FoldOperation().
  size_t errors = 0;            // This import's, in `diagnostics`.
  size_t depth = 0;             // Depth of nested calls and bodies.
  std::string within = "";      // Begins their paths: the bodies around.
  std::map<const proto::Function*, Opsets> function_opsets = {};
  LateMakers late_makers = {};
  NodeOrders orders = {};
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
  OriginReader origins = {};
  // Operators of which it has been said that they are taken as older ones.
  std::set<std::string, std::less<>> taken_as_older = {};
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
      of_operators = {};

  // Returns a diagnostic about a path in what is around it now.
  Diagnostic MakeDiagnostic(Severity severity, const std::string& path,
                            std::string found, std::string expected,
                            std::string hint = "") const {
    return {.severity = severity,
            .file = where,
            .path = within + path,
            .found = std::move(found),
            .expected = std::move(expected),
            .hint = std::move(hint)};
  }
  // Adds such a diagnostic. Returns its place in the list; none: that is full.
  std::optional<size_t> Add(const FindingKind& kind, Severity severity,
                            const std::string& path, std::string found,
                            std::string expected, std::string hint = "");
  // About names, types and attributes.
  void Error(const std::string& path, std::string found,
             std::string expected = "") {
    Add(network_kinds::kInvalidInformation, Severity::kError, path,
        std::move(found), std::move(expected));
  }
  void Error(const std::string& path, const absl::Status& status) {
    Error(path, std::string(MessageOf(status)));
  }
  void Warning(const std::string& path, std::string found,
               std::string expected) {
    Add(network_kinds::kInvalidInformation, Severity::kWarning, path,
        std::move(found), std::move(expected));
  }
  // About what reads what.
  void StructureError(const std::string& path, std::string found,
                      std::string expected = "", std::string hint = "") {
    Add(network_kinds::kInvalidStructure, Severity::kError, path,
        std::move(found), std::move(expected), std::move(hint));
  }
  // Names all nodes of what was said of operators.
  void CountOfOperators();
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
  const Opsets* opsets = nullptr;
  // The functions that it is in, and the attributes of the innermost call.
  std::vector<const proto::Function*> calls = {};
  AttributesByName attributes = {};
  std::map<std::string, Binding, std::less<>> values = {};
  // For a call or a taken branch: the prefix of the names in it, the names that
  // its outputs have outside, and where the node is from that stands for it.
  std::string prefix = "";
  std::map<std::string, std::string, std::less<>> renamed = {};
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
  Binding* NewBinding(const std::string& where, const std::string& name,
                      Scope* scope);
  void ImportNodes(const Nodes& nodes, Scope* scope);
  void SetOutputs(const proto::Graph& graph, Scope* scope);
  void CheckTypes(const proto::Graph& graph, const Scope& scope);
  void CheckStated(const proto::Graph& graph, const Scope& scope);
  void AddMisstatement(const std::string& path, std::string found,
                       std::string expected) {
    state_.misstated->push_back(state_.MakeDiagnostic(
        Severity::kError, path, std::move(found), std::move(expected)));
  }
  DimSizes* DimsOf(const Scope& scope);
  bool Freeze(const std::string& name, const TensorType& type, Scope* scope);
  Binding Capture(const Binding& outer, const GraphImporter& from);
  // Returns null if nothing has that name.
  const Binding* Find(Scope* scope, const std::string& name);
  std::string UniqueName(NameSet* names, std::string name);
  // Returns what a new value is bound to; reports why there is none.
  Binding BindingOf(const absl::StatusOr<ValueId>& id,
                    const std::string& where);
  Binding AddConstant(const std::string& where, std::string name, NDArray data,
                      std::vector<std::string> folded_from = {}) {
    return BindingOf(network_.AddConstant(std::move(name), std::move(data),
                                          std::move(folded_from)),
                     where);
  }

  // A node, and what has been read of it so far.
  struct NodeParts {
    const proto::Node& node;
    Scope& scope;
    std::string name;
    std::string where;
    int opset = 0;
    const OperatorDef* def = nullptr;
    // There is no `def`, and the node becomes opaque.
    bool is_opaque = false;
    std::vector<NamedAttr> attrs = {};
    std::vector<std::pair<std::string, const proto::Graph*>> bodies = {};
    std::vector<ValueId> inputs = {};
  };

  // node_importer.cc
  void ImportNode(const proto::Node& node, size_t index, Scope* scope);
  void ImportConstant(NodeParts& parts);
  void ImportOperation(NodeParts& parts);
  bool ReadInputs(NodeParts& parts);
  void CheckInputTypes(const NodeParts& parts);
  void ReportMissing(const NodeParts& parts, const std::string& name,
                     size_t input);
  bool ReadAttributes(NodeParts& parts);
  // Returns the attribute that one stands for; null: it is not given.
  const proto::Attribute* ResolveReference(const proto::Attribute& given,
                                           const NodeParts& parts,
                                           bool* is_whole);
  static void DropUnchecked(NodeParts& parts);
  void ReadFlag(NodeParts& parts);
  bool MoveAttribute(const MovedAttribute& moved, NodeParts& parts);
  void AddSeed(NodeParts& parts) const;
  bool AddMoved(NodeParts& parts);
  bool AddBodies(NodeParts& parts);
  static void PadInputs(NodeParts& parts, bool has_captures);
  void AddOperation(OpAttrs attrs, std::vector<std::string> outputs,
                    NodeParts& parts);
  std::shared_ptr<const Origin> OriginOf(const NodeParts& parts);
  std::vector<Binding> FoldOutputs(OperationId id, const std::string& where);
  std::vector<std::string> OutputNames(const NodeParts& parts);
  void Bind(const NodeParts& parts, size_t output, Binding binding);
  void BreakOutputs(const NodeParts& parts);

  // operator_finder.cc
  void FindOperator(NodeParts& parts);
  void WarnIfDeprecated(int opset, const NodeParts& parts);
  void WarnIfNewer(const OperatorDef& row, int opset);
  void ImportUnknown(NodeParts& parts, bool is_imported, bool is_of_model);
  std::string KnownOnnx(const std::string& name) const;
  void ReportNotImported(const NodeParts& parts);
  // Says something of a node that is to be said of all nodes of its operator
  // together: if it has been said of another node, this one is only counted.
  void AddOfOperator(const NodeParts& parts, const FindingKind& kind,
                     Severity severity, std::string found, std::string expected,
                     std::string name = "");

  // opaque_node.cc
  void ImportOpaque(std::vector<std::string> outputs, NodeParts& parts);
  void Refuse(const absl::Status& why, std::vector<std::string> outputs,
              NodeParts& parts);
  bool KeepsOpaque(bool is_of_model) const;
  absl::StatusOr<ops::Opaque> MakeOpaque(const NodeParts& parts);
  bool ReadCaptures(const std::vector<std::string>& names, NodeParts& parts);
  absl::StatusOr<std::vector<TensorType>> StatedTypes(
      const std::vector<std::string>& outputs, const Scope& scope);
  void StateTypes(const proto::Graph& graph, const Scope& scope);
  bool IsAmongTensors(const NodeParts& parts);

  // nested_importer.cc
  bool IsTooDeep(const std::string& where);
  std::optional<Subgraph> ImportBody(const proto::Graph& graph,
                                     absl::Span<const TensorType> types,
                                     const std::string& where, Scope* scope,
                                     std::vector<ValueId>* captures);
  std::string FreezingHint(ValueId condition) const;
  void HintAtFreezing(ValueId condition, size_t first);
  const proto::Graph* TakenBranch(const NodeParts& parts);
  void ImportBranch(const proto::Graph& branch, const NodeParts& parts);
  std::vector<std::string> NameInside(
      const NodeParts& parts, absl::FunctionRef<std::string(int)> output_name,
      Scope* inner);
  void ImportCall(const proto::Function& function, const NodeParts& parts);
  bool CheckCall(const proto::Function& function, const NodeParts& parts);
  bool BindInputs(const proto::Function& function, const NodeParts& parts,
                  Scope* inner);
  bool BindAttributes(const proto::Function& function, const NodeParts& parts,
                      Scope* inner);
  void BindResults(const proto::Function& function, const NodeParts& parts,
                   absl::Span<const std::string> names, const Scope& inner);
  Binding Named(const Binding& result, const std::string& name,
                const std::string& where, const Scope& inner);

  // contrib_importer.cc
  const ContribFunction* FindContrib(const proto::Node& node);
  void ImportContrib(const ContribFunction& function, NodeParts& parts);
  void ImportContrib(
      const ContribFunction& function, NodeParts& parts,
      absl::FunctionRef<const proto::Attribute*(std::string_view)> attribute,
      absl::Span<const FunctionAttribute> more_attributes);

  // glow_importer.cc
  void ReadGlow(const proto::Graph& graph);
  bool ImportGlow(NodeParts& parts);
  void NoteCall(const ContribFunction& row, const NodeParts& parts);

  ImportState& state_;
  Network network_;
  NameSet names_;  // Names of values.
  NameSet node_names_;
  // What the model states about values, by their names in the network.
  std::map<std::string, const proto::ValueInfo*, std::less<>> stated_;
  // For each input after the graph's own, the value around the graph that it
  // stands for.
  std::vector<ValueId> captures_;
  // Whether Glow wrote the model, and if so the types of its values and the
  // names that something reads.
  bool is_glow_ = false;
  GlowTypes glow_types_;
  std::set<std::string, std::less<>> glow_read_;
};

}  // namespace nodewise
