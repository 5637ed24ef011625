// The rules of ONNX's specification that its checker enforces and that no
// import needs. Types are compared elsewhere (graph_importer.cc).

#include <algorithm>
#include <climits>
#include <set>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "contrib/onnx/operator_signatures.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

// Rules that came later do not bind older models. Each constant is the version
// of the format from which on its rule holds.
constexpr int64_t kTypedAttributes = 2;   // attributes state their type;
constexpr int64_t kFreeInitializers = 4;  // initializers need not be inputs;
constexpr int64_t kFunctions = 8;         // there are functions.

// Operators that were experiments: nothing is known of them, so that nothing
// can be said against them.
constexpr std::string_view kExperiments[] = {
    "ATen",         "Affine",     "ConstantFill",      "Crop",
    "DynamicSlice", "GRUUnit",    "GivenTensorFill",   "ImageScaler",
    "Scale",        "ScaledTanh", "ParametricSoftplus"};

// All operators of these domains are known, so that any other name in one of
// them is a fault.
constexpr std::string_view kOnnxDomains[] = {"", "ai.onnx", "ai.onnx.ml",
                                             "ai.onnx.preview.training"};

// Domains as the model has them: "ai.onnx" and "" are two.
Opsets ImportsOf(
    const google::protobuf::RepeatedPtrField<proto::OperatorSetId>& list) {
  Opsets imports;
  for (const proto::OperatorSetId& one : list) {
    imports[one.domain()] = static_cast<int>(one.version());
  }
  return imports;
}

const OperatorSignature* SignatureOf(const proto::Node& node,
                                     const Opsets& imports) {
  const int* const version = FindOrNull(imports, node.domain());
  if (version == nullptr) return nullptr;
  return FindSignature(node.domain(), node.op_type(), *version);
}

struct Names {
  const Names* outer = nullptr;
  std::set<std::string_view> here = {};

  bool Has(std::string_view name) const {
    return here.contains(name) || (outer != nullptr && outer->Has(name));
  }
};

struct Around {
  const Opsets& imports;
  bool is_main = true;  // In no body.
};

std::vector<AttributeType> FieldsOf(const proto::Attribute& attribute) {
  const std::pair<bool, AttributeType> fields[] = {
      {attribute.has_f(), AttributeType::kFloat},
      {attribute.has_i(), AttributeType::kInt},
      {attribute.has_s(), AttributeType::kString},
      {attribute.has_t(), AttributeType::kTensor},
      {attribute.has_g(), AttributeType::kGraph},
      {attribute.has_tp(), AttributeType::kType},
      {attribute.has_sparse_tensor(), AttributeType::kSparseTensor},
      {attribute.floats_size() > 0, AttributeType::kFloats},
      {attribute.ints_size() > 0, AttributeType::kInts},
      {attribute.strings_size() > 0, AttributeType::kStrings},
      {attribute.tensors_size() > 0, AttributeType::kTensors},
      {attribute.graphs_size() > 0, AttributeType::kGraphs},
      {attribute.sparse_tensors_size() > 0, AttributeType::kSparseTensors},
      {attribute.type_protos_size() > 0, AttributeType::kTypes}};
  std::vector<AttributeType> found;
  for (const auto& [is_set, type] : fields) {
    if (is_set) found.push_back(type);
  }
  return found;
}

// Goes through a model part by part, as ONNX's checker does. What the import
// has said of a part is an error already, so a part that has one is passed
// over: the same fault would be told twice in different words.
class Specification {
 public:
  Specification(const proto::Model& model, ImportState* state)
      : model_(model), state_(*state) {
    for (const Diagnostic& each : state_.diagnostics.items()) {
      if (each.severity == Severity::kError) faulty_.insert(each.path);
    }
    for (const auto& [key, one] : state_.of_operators) {
      if (!one.is_error) continue;
      for (const std::string& node : one.nodes) {
        faulty_nodes_.emplace(one.within, node);
      }
    }
  }

  void Check() {
    CheckVersions();
    const Opsets imports = ImportsOf(model_.opset_import());
    CheckGraph(model_.graph(), nullptr, {imports, true});
    if (model_.ir_version() >= kFunctions) CheckFunctions(imports);
  }

 private:
  void AddFault(const std::string& path, std::string found,
                std::string expected) {
    if (faulty_.contains(state_.within + path)) return;
    state_.Error(path, std::move(found), std::move(expected));
  }

  // A model that is newer than what is known may follow rules that are not
  // known either.
  void CheckVersions() {
    if (model_.ir_version() > kNewestIr) {
      AddFault("ir_version", fmt::format("is {}", model_.ir_version()),
               fmt::format("{} or less, the newest that is known", kNewestIr));
    }
    if (model_.opset_import_size() == 0) {
      AddFault("opset_import", "is empty",
               "the opset of the model's operators");
    }
    std::set<std::string_view> keys;
    for (const proto::StringPair& each : model_.metadata_props()) {
      if (keys.insert(each.key()).second) continue;
      AddFault("metadata_props",
               fmt::format("has {} twice", Shortened(each.key())),
               "every key once");
    }
  }

  // Initializers come before nodes, whose bodies may read them; an output may
  // also be an input or an initializer.
  void CheckGraph(const proto::Graph& graph, const Names* outer,
                  const Around& around) {
    if (graph.name().empty()) AddFault("graph", "has no name", "one");
    Names names{outer};
    for (const proto::ValueInfo& input : graph.input()) {
      CheckValue(input, "input", around);
      if (!names.here.insert(input.name()).second) {
        AddFault(fmt::format("input {}", Shortened(input.name())),
                 "is there twice", "every name once");
      }
    }
    for (const proto::ValueInfo& output : graph.output()) {
      CheckValue(output, "output", around);
    }
    CheckInitializers(graph, &names);
    CheckNodes(graph.node(), around, &names);
    for (const proto::ValueInfo& output : graph.output()) {
      if (names.here.contains(output.name())) continue;
      AddFault(fmt::format("output {}", Shortened(output.name())),
               "is made by nothing in its graph",
               "the output of one of its nodes");
    }
  }

  // Only the model's own inputs and outputs need a type.
  void CheckValue(const proto::ValueInfo& value, const char* kind,
                  const Around& around) {
    const std::string where =
        fmt::format("{} {}", kind, Shortened(value.name()));
    if (value.name().empty()) return AddFault(where, "has no name", "one");
    if (!around.is_main) return;
    const proto::Type& type = value.type();
    if (type.value_case() == proto::Type::VALUE_NOT_SET) {
      return AddFault(where, "has no type", "one");
    }
    if (!type.has_tensor_type()) return;
    if (!type.tensor_type().has_elem_type()) {
      AddFault(where, "has no element type", "one");
    } else if (!type.tensor_type().has_shape()) {
      AddFault(where, "has no shape", "one (sides may be open)");
    }
  }

  void CheckInitializers(const proto::Graph& graph, Names* names) {
    std::set<std::string_view> seen;
    for (const proto::Tensor& tensor : graph.initializer()) {
      const std::string where =
          fmt::format("initializer {}", Shortened(tensor.name()));
      if (tensor.name().empty()) AddFault(where, "has no name", "one");
      if (!seen.insert(tensor.name()).second) {
        AddFault(where, "is there twice", "every name once");
      }
      CheckTensor(tensor, where);
      if (model_.ir_version() < kFreeInitializers &&
          !names->here.contains(tensor.name())) {
        AddFault(where, "is not an input of the graph",
                 fmt::format("one before IR version {}", kFreeInitializers));
      }
      names->here.insert(tensor.name());
    }
    for (const proto::SparseTensor& tensor : graph.sparse_initializer()) {
      names->here.insert(tensor.values().name());
    }
  }

  // Whether data fit the type and the dimensions, reading them tells; that is
  // done in the import.
  void CheckTensor(const proto::Tensor& tensor, const std::string& where) {
    constexpr int kString = 8;
    if (tensor.data_type() == 0) return AddFault(where, "has no type", "one");
    const bool is_set[] = {
        tensor.float_data_size() > 0,  tensor.int32_data_size() > 0,
        tensor.string_data_size() > 0, tensor.int64_data_size() > 0,
        tensor.double_data_size() > 0, tensor.uint64_data_size() > 0,
        !tensor.raw_data().empty()};
    const auto fields = std::ranges::count(is_set, true);
    if (tensor.data_location() == kExternalData) {
      if (fields > 0)
        AddFault(where, "has data here and elsewhere", "them once");
      return;
    }
    const bool is_empty = IsIn(tensor.dims(), 0);
    if (is_empty ? fields > 0 : fields != 1) {
      AddFault(where, fmt::format("has data in {} fields", fields),
               is_empty ? "none, since it has no elements" : "1");
    } else if (tensor.data_type() == kString && !tensor.raw_data().empty()) {
      AddFault(where, "has strings in raw_data", "them in string_data");
    }
  }

  void CheckNodes(const Nodes& nodes, const Around& around, Names* names) {
    for (int i = 0; i < nodes.size(); ++i) {
      const proto::Node& node = nodes.Get(i);
      const std::string name = NameOf(node, static_cast<size_t>(i));
      const std::string where = NodeLocationIn(node, name, around);
      if (!faulty_nodes_.contains({state_.within, name})) {
        CheckNode(node, where, around, *names);
      }
      for (const std::string& output : node.output()) {
        if (output.empty()) continue;
        if (names->Has(output)) {
          AddFault(where,
                   fmt::format("output {} is there already", Shortened(output)),
                   "every name once, also in bodies");
        }
        names->here.insert(output);
      }
    }
  }

  static std::string NodeLocationIn(const proto::Node& node,
                                    std::string_view name,
                                    const Around& around) {
    return NodeLocation(node, name, KnownOpset(around.imports, node.domain()));
  }

  void CheckNode(const proto::Node& node, const std::string& where,
                 const Around& around, const Names& names) {
    if (node.op_type().empty())
      return AddFault(where, "has no operator", "one");
    if (node.input_size() == 0 && node.output_size() == 0) {
      return AddFault(where, "has no inputs and no outputs", "some");
    }
    if (!around.imports.contains(node.domain())) {
      return AddFault(where,
                      fmt::format("is of domain \"{}\", which is not imported",
                                  Shortened(node.domain())),
                      "an opset_import of just that name");
    }
    CheckAttributes(node, where, around, names);
    if (DomainOf(node.domain()).empty() && IsIn(kExperiments, node.op_type())) {
      return;
    }
    const OperatorSignature* const row = SignatureOf(node, around.imports);
    if (row != nullptr) return CheckCall(node, *row, where);
    // A function of that name does not make it one of ONNX's operators.
    if (IsIn(kOnnxDomains, node.domain())) {
      AddFault(where, "is not in its opset", "an operator that ONNX has there");
    }
  }

  void CheckAttributes(const proto::Node& node, const std::string& where,
                       const Around& around, const Names& names) {
    std::set<std::string_view> seen;
    for (const proto::Attribute& attribute : node.attribute()) {
      const std::string name =
          fmt::format("attribute {}", Shortened(attribute.name()));
      if (attribute.name().empty())
        AddFault(where, "has an unnamed attribute", "");
      if (!seen.insert(attribute.name()).second) {
        AddFault(where, name + " is there twice", "every name once");
      }
      if (model_.ir_version() >= kTypedAttributes && !attribute.has_type()) {
        AddFault(where, name + " states no type", "one");
      }
      CheckFields(attribute, name, where, around);
      if (attribute.has_t()) CheckTensor(attribute.t(), where);
      if (!attribute.has_g()) continue;
      const InBody in_body(
          &state_, fmt::format("{}: {}", where, Shortened(attribute.name())));
      CheckGraph(attribute.g(), &names, {around.imports, false});
    }
  }

  void CheckFields(const proto::Attribute& attribute, const std::string& name,
                   const std::string& where, const Around& around) {
    const std::vector<AttributeType> fields = FieldsOf(attribute);
    if (fields.size() > 1) {
      return AddFault(
          where, fmt::format("{} has {} values", name, fields.size()), "1");
    }
    if (fields.empty()) return;
    if (attribute.has_type() &&
        attribute.type() != static_cast<int>(fields[0])) {
      return AddFault(where,
                      name + " has a value of another type than it states",
                      "one type");
    }
    if (!around.is_main && attribute.has_ref_attr_name()) {
      AddFault(where, name + " has a value and refers to one", "one of these");
    }
  }

  // An operator in its opset says how many inputs and outputs it may have,
  // which of them may be left out, and which attributes. Whether the types fit,
  // the import with all checks says (GraphImporter::CheckInputTypes).
  void CheckCall(const proto::Node& node, const OperatorSignature& row,
                 const std::string& where) {
    if (row.is_deprecated) {
      AddFault(where, "is deprecated in its opset", "what replaces it there");
    }
    CheckPlaces(node.input(), row.inputs, {row.least_inputs, row.most_inputs},
                "input", where);
    CheckPlaces(node.output(), row.outputs,
                {row.least_outputs, row.most_outputs}, "output", where);
    CheckFill(node, where);
    std::set<std::string_view> given;
    for (const proto::Attribute& attribute : node.attribute()) {
      given.insert(attribute.name());
      CheckAttribute(attribute, row, where);
    }
    for (const OperatorSignature::Attribute& each : row.attributes) {
      if (!each.is_required || given.contains(each.name)) continue;
      AddFault(where, fmt::format("attribute {} is missing", each.name), "it");
    }
  }

  template <typename Given>
  void CheckPlaces(const Given& given,
                   const std::vector<OperatorSignature::Param>& params,
                   std::pair<int, int> range, const char* what,
                   const std::string& where) {
    if (given.size() < range.first || given.size() > range.second) {
      const std::string most = range.second == INT_MAX
                                   ? std::string("or more")
                                   : fmt::format("to {}", range.second);
      return AddFault(where, fmt::format("has {} {}s", given.size(), what),
                      fmt::format("{} {}", range.first, most));
    }
    const size_t count =
        std::min(params.size(), static_cast<size_t>(given.size()));
    for (size_t i = 0; i < count; ++i) {
      if (!given.Get(static_cast<int>(i)).empty() ||
          params[i].kind != OperatorSignature::Kind::kSingle) {
        continue;
      }
      AddFault(where, fmt::format("{} {} has no name", what, i),
               "one, since it is not optional");
    }
  }

  void CheckAttribute(const proto::Attribute& attribute,
                      const OperatorSignature& row, const std::string& where) {
    const std::string name =
        fmt::format("attribute {}", Shortened(attribute.name()));
    const auto known = std::ranges::find(row.attributes, attribute.name(),
                                         &OperatorSignature::Attribute::name);
    if (known == row.attributes.end()) {
      if (row.takes_more_attributes) return;
      // Attributes with two underscores in front belong to one implementation,
      // and no schema has them.
      if (std::string_view(attribute.name()).starts_with("__")) return;
      return AddFault(
          where, name + " is unknown",
          fmt::format("one that the operator has since opset {}", row.since));
    }
    if (attribute.type() != known->type) {
      return AddFault(where, name + " is of another type", "the operator's");
    }
    if (!attribute.ref_attr_name().empty()) return;
    // Numbers, texts and lists have a value where none is written: 0, nothing.
    constexpr AttributeType kWithout[] = {
        AttributeType::kTensor, AttributeType::kGraph,
        AttributeType::kSparseTensor, AttributeType::kType};
    const auto type = static_cast<AttributeType>(known->type);
    if (IsIn(kWithout, type) && !IsIn(FieldsOf(attribute), type)) {
      AddFault(where, name + " has no value", "one of its type");
    }
  }

  // The checker refuses a value of ConstantOfShape that has not just one
  // dimension; no schema says so.
  void CheckFill(const proto::Node& node, const std::string& where) {
    if (node.op_type() != "ConstantOfShape" || node.attribute_size() != 1 ||
        node.attribute(0).t().dims_size() == 1) {
      return;
    }
    AddFault(where,
             fmt::format("attribute value has {} dimensions",
                         node.attribute(0).t().dims_size()),
             "1");
  }

  void CheckFunctions(const Opsets& imports) {
    // A domain that functions alone import counts with the version of the first
    // of them.
    Opsets all = imports;
    for (const proto::Function& function : model_.functions()) {
      for (const auto& [domain, version] : ImportsOf(function.opset_import())) {
        all.emplace(domain, version);
      }
    }
    for (const proto::Function& function : model_.functions()) {
      CheckFunction(function, all);
    }
  }

  void CheckFunction(const proto::Function& function, const Opsets& of_model) {
    const std::string where =
        fmt::format("function {}", Shortened(function.name()));
    if (function.name().empty()) AddFault(where, "has no name", "one");
    if (!function.has_domain()) AddFault(where, "has no domain", "one");
    CheckOnce(function.output(), where, "output");
    CheckOnce(function.attribute(), where, "attribute");
    CheckOnce(function.input(), where, "input");
    Names names;
    names.here.insert(function.input().begin(), function.input().end());
    const Opsets imports = ImportsOf(function.opset_import());
    const Around around{imports, true};
    const InBody in_function(&state_, where);
    VisitNodes(function, around, [&](const auto& node, const auto& place) {
      CheckVersion(node, place, imports, of_model);
    });
    CheckNodes(function.node(), around, &names);
    // The outputs of all nodes are among the names by now.
    VisitNodes(function, around, [&](const auto& node, const auto& place) {
      CheckReads(node, place, names.here);
    });
  }

  template <typename Visitor>
  static void VisitNodes(const proto::Function& function, const Around& around,
                         Visitor visit) {
    for (int i = 0; i < function.node_size(); ++i) {
      const proto::Node& node = function.node(i);
      visit(node,
            NodeLocationIn(node, NameOf(node, static_cast<size_t>(i)), around));
    }
  }

  // The import does not look into a function that nothing calls. Any order of
  // the nodes is fine here, since another check tells of the order.
  void CheckReads(const proto::Node& node, const std::string& where,
                  const std::set<std::string_view>& known) {
    for (const std::string& input : node.input()) {
      if (input.empty() || known.contains(input)) continue;
      AddFault(where,
               fmt::format("input {} is made by nothing", Shortened(input)),
               "the output of a node or an input of the function");
    }
  }

  // A function may import another version of an operator set than the model
  // does, but the operators that it uses must have one schema in both.
  void CheckVersion(const proto::Node& node, const std::string& where,
                    const Opsets& imports, const Opsets& of_model) {
    const int* const theirs = FindOrNull(of_model, node.domain());
    if (!imports.contains(node.domain()) || theirs == nullptr ||
        SignatureOf(node, imports) == SignatureOf(node, of_model)) {
      return;
    }
    AddFault(
        where,
        fmt::format("is another operator in opset {}, the model's", *theirs),
        "one that is the same in both");
  }

  template <typename Given>
  void CheckOnce(const Given& given, const std::string& where,
                 const char* what) {
    std::set<std::string_view> seen;
    for (const std::string& name : given) {
      if (seen.insert(name).second) continue;
      AddFault(where, fmt::format("has {} {} twice", what, Shortened(name)),
               "every name once");
    }
  }

  const proto::Model& model_;
  ImportState& state_;
  // Paths with an error, and nodes by what is around them.
  std::set<std::string, std::less<>> faulty_;
  std::set<std::pair<std::string, std::string>> faulty_nodes_;
};

// Nothing tells the types of values that operators of other domains make, so a
// model with such operators is not compared with the types that it states.
bool AreDefined(const Nodes& nodes, const proto::Model& model,
                const Opsets& imports) {
  return std::ranges::all_of(nodes, [&](const proto::Node& node) {
    const bool is_function = std::ranges::any_of(
        model.functions(), [&](const proto::Function& each) {
          return each.name() == node.op_type() &&
                 each.domain() == node.domain();
        });
    return (is_function || SignatureOf(node, imports) != nullptr) &&
           std::ranges::all_of(
               node.attribute(), [&](const proto::Attribute& attribute) {
                 return !attribute.has_g() ||
                        AreDefined(attribute.g().node(), model, imports);
               });
  });
}

}  // namespace

void CheckSpecification(const proto::Model& model, ImportState* state) {
  Specification(model, state).Check();
}

bool HasOnlyDefinedOperators(const proto::Model& model) {
  return AreDefined(model.graph().node(), model,
                    ImportsOf(model.opset_import()));
}

}  // namespace nodewise
