// Imports models that Glow wrote. It writes its own operators, whose attributes
// also say of which types their inputs and outputs are. Numbers of quantized
// types are integers with a scale and an offset that belong to the type, which
// ONNX does not have; so each node becomes a call of a function with lines
// around its body that make real numbers of them and bring the results back.

#include <algorithm>
#include <charconv>

#include "contrib/onnx/function_body.h"
#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Glow's names of element types, with ONNX's numbers. Rows of bytes ("fused")
// count as bytes: what the last of them mean is only known to the operators.
struct KindRow {
  std::string_view name;
  int64_t onnx;
  bool is_quantized = false;
};
constexpr KindRow kKinds[] = {
    {"float", 1},    {"float16", 10},     {"bfloat16", 16},    {"float64", 11},
    {"i8", 3, true}, {"ui8", 2, true},    {"i16", 5, true},    {"i32", 6, true},
    {"i64", 7},      {"uindex8", 2},      {"index32", 6},      {"index64", 7},
    {"ui8fused", 2}, {"ui8fusedfp16", 2}, {"ui4fusedfp16", 2}, {"ui4fused", 2},
    {"bool", 9},
};

const KindRow* FindKind(std::string_view kind) {
  const auto* const row = std::ranges::find(kKinds, kind, &KindRow::name);
  return row == std::end(kKinds) ? nullptr : row;
}

// Returns the type that a note states; none if it states none. Entries of the
// note that are not known are passed over.
std::optional<GlowType> GlowTypeIn(std::string_view note) {
  GlowType type;
  while (!note.empty()) {
    const size_t begin = note.find('$');
    if (begin == std::string_view::npos) break;
    note.remove_prefix(begin + 1);
    const std::string_view entry = note.substr(0, note.find('$'));
    const size_t colon = entry.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, colon);
    const std::string_view value = entry.substr(colon + 1);
    const char* const end = value.data() + value.size();
    if (name == "elemKind") type.kind = std::string(value);
    if (name == "qScale") std::from_chars(value.data(), end, type.scale);
    if (name == "qOffset") std::from_chars(value.data(), end, type.offset);
  }
  if (type.kind.empty()) return std::nullopt;
  return type;
}

// Returns the type that a node states for its input or output ("i0", "o1");
// none if it states none.
std::optional<GlowType> GlowTypeOf(const proto::Node& node,
                                   const std::string& which) {
  const proto::Attribute* const kind = FindAttribute(node, which + "_elemKind");
  if (kind == nullptr) return std::nullopt;
  const auto* const scale = FindAttribute(node, which + "_qScale");
  const auto* const offset = FindAttribute(node, which + "_qOffset");
  return GlowType{kind->s(), scale == nullptr ? 0 : scale->f(),
                  offset == nullptr ? 0 : int64_t{offset->i()}};
}

struct RefusedGlow {
  std::string_view name;
  const char* reason;
};
constexpr char kOfBackend[] = "is of one of Glow's backends alone";
constexpr char kDetects[] = "finds boxes in a way of its own";
constexpr char kSplit[] =
    "reads tables whose number of bits is known only when it runs";
constexpr char kTrains[] = "is for training";
constexpr RefusedGlow kRefused[] = {
    {"BBoxTransform", kDetects},
    {"CollectRpnProposals", kDetects},
    {"GaussianFill", "draws random numbers as C++'s library does"},
    {"IntNBitSplitEmbeddingBags", kSplit},
    {"IntNBitSplitEmbeddingWeightedBags", kSplit},
    {"LookupTable", "is computed by no backend of Glow's that is public"},
    {"NonMaxSuppression", kDetects},
    {"QuantizationProfile", "counts what it reads, and makes nothing"},
    {"SGD", kTrains},
    {"TFLiteCustomOperator", "is any operator of TensorFlow Lite's"},
    {"TFLiteDetectionPostProcess", kDetects},
    {"Touch", "leaves its result as the memory was"},
};

constexpr std::string_view kBackends[] = {"CPU", "Habana", "NNPI", "OCL",
                                          "VectorSigmoid"};

// Returns why an operator is not supported; null if it is not known at all.
const char* RefusalReason(std::string_view name) {
  for (const RefusedGlow& one : kRefused) {
    if (one.name == name) return one.reason;
  }
  if (name.ends_with("Grad")) return kTrains;
  for (const std::string_view backend : kBackends) {
    if (name.starts_with(backend)) return kOfBackend;
  }
  return nullptr;
}

// The attributes that say the types of inputs and outputs. Types of more inputs
// than these are not asked for by any body.
constexpr FunctionAttribute kTypeAttributes[] = {
    {"i0_qScale", 0.0F},    {"i0_qOffset", 0},      {"i1_qScale", 0.0F},
    {"i1_qOffset", 0},      {"i2_qScale", 0.0F},    {"i2_qOffset", 0},
    {"i3_qScale", 0.0F},    {"i3_qOffset", 0},      {"i4_qScale", 0.0F},
    {"i4_qOffset", 0},      {"i5_qScale", 0.0F},    {"i5_qOffset", 0},
    {"i6_qScale", 0.0F},    {"i6_qOffset", 0},      {"o0_qScale", 0.0F},
    {"o0_qOffset", 0},      {"o1_qScale", 0.0F},    {"o1_qOffset", 0},
    {"i0_shape", NoInts()}, {"o0_shape", NoInts()}, {"o1_shape", NoInts()},
    {"o0_type", 1},         {"o1_type", 1},         {"steps", 0},
    {"i0_kind", ""},        {"i1_last", 0},
};

// An offset is given in the type of its numbers, so that type must hold it.
absl::Status CheckOffset(const std::string& which, const GlowType& type) {
  struct Range {
    std::string_view kind;
    int64_t least, most;
  };
  constexpr Range kRanges[] = {
      {"i8", -128, 127}, {"ui8", 0, 255}, {"i16", -32768, 32767}};
  for (const Range& range : kRanges) {
    if (range.kind != type.kind ||
        (type.offset >= range.least && type.offset <= range.most)) {
      continue;
    }
    return InvalidArgument(
        "attribute {}_qOffset: is {}, expected {} to {} for {}", which,
        type.offset, range.least, range.most, type.kind);
  }
  return absl::OkStatus();
}

class GlowNode {
 public:
  GlowNode(const ContribFunction& row, const proto::Node& node,
           const GlowTypes& types, const GlowOptions& options)
      : function_(row), node_(node), types_(types), options_(options) {}

  // The body that is made takes quantized inputs as the real numbers that they
  // stand for.
  absl::Status Prepare() {
    NODEWISE_RETURN_IF_ERROR(NoteInputs());
    NODEWISE_RETURN_IF_ERROR(NoteOutputs());
    if (options_.half_sums) Note("UseFP16Accumulation", int64_t{1});
    in_steps_ = in_steps_ && function_.numbers == GlowNumbers::kSteps;
    Note("steps", int64_t{in_steps_ ? 1 : 0});
    WrapReals();
    return absl::OkStatus();
  }
  const ContribFunction& function() const { return function_; }
  const proto::Attribute* Find(std::string_view name) const {
    const proto::Attribute* const made = FindOrNull(made_, name);
    return made != nullptr ? made : FindAttribute(node_, name);
  }

 private:
  void Note(const std::string& name, const AttrValue& value) {
    made_[name] = NamedAttribute(name, value);
  }
  // Nodes of older models state no types of inputs; what made them does.
  std::optional<GlowType> InputType(int i) const {
    const auto stated = GlowTypeOf(node_, fmt::format("i{}", i));
    if (stated.has_value()) return stated;
    const GlowType* const found = FindOrNull(types_, node_.input(i));
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  absl::Status NoteType(const std::string& which, const GlowType& type) {
    // Glow writes a scale of no meaning for rows of bytes.
    Note(which + "_qScale", type.is_quantized() ? type.scale : 0.0F);
    if (type.is_quantized()) Note(which + "_qOffset", type.offset);
    return CheckOffset(which, type);
  }
  absl::Status NoteInputs();
  absl::Status NoteOutputs();
  void WrapReals();

  ContribFunction function_;
  const proto::Node& node_;
  const GlowTypes& types_;
  const GlowOptions& options_;
  std::string body_;  // What `function_` has for a body.
  std::map<std::string, proto::Attribute, std::less<>> made_;
  bool in_steps_ = false;
};

// Rows of bytes are only taken by bodies that ask for their kind, and only as
// the first input, where Glow has tables.
absl::Status GlowNode::NoteInputs() {
  const bool takes_rows = function_.body.find("_kind") != std::string::npos;
  for (int i = 0; i < node_.input_size(); ++i) {
    const auto type = InputType(i);
    if (!type.has_value()) continue;
    NODEWISE_RETURN_IF_ERROR(NoteType(fmt::format("i{}", i), *type));
    if (!type->is_fused()) continue;
    if (i > 0 || !takes_rows) {
      return Unimplemented("is not supported with rows of {}", type->kind);
    }
    const bool is_rounded = options_.half_scales && type->kind == "ui8fused";
    Note("i0_kind", is_rounded ? "ui8fusedrounded" : type->kind);
  }
  const proto::Attribute* const sides = Find("i1_shape");
  if (sides != nullptr && sides->ints_size() > 0) {
    Note("i1_last", int64_t{sides->ints(sides->ints_size() - 1)});
  }
  return absl::OkStatus();
}

absl::Status GlowNode::NoteOutputs() {
  for (int i = 0; i < node_.output_size(); ++i) {
    const std::string which = fmt::format("o{}", i);
    const auto type = GlowTypeOf(node_, which);
    if (!type.has_value()) continue;
    NODEWISE_RETURN_IF_ERROR(NoteType(which, *type));
    const KindRow* const kind = FindKind(type->kind);
    if (kind == nullptr || type->is_fused()) {
      return Unimplemented(
          "attribute {}_elemKind: is {}, which is not supported", which,
          Shortened(type->kind));
    }
    Note(which + "_type", kind->onnx);
    if (i == 0) in_steps_ = type->kind == "i8";
  }
  return absl::OkStatus();
}

// Puts lines around the body that make real numbers of what is quantized. A
// name that is given again stands for the new value, so the body itself stays
// as it is.
void GlowNode::WrapReals() {
  const bool takes_reals =
      function_.numbers != GlowNumbers::kStored && !in_steps_;
  for (size_t i = 0; i < function_.inputs.size() && takes_reals; ++i) {
    if (static_cast<int>(i) >= node_.input_size()) break;
    const auto type = InputType(static_cast<int>(i));
    if (!type.has_value() || !type->is_quantized()) continue;
    body_ += fmt::format(
        "{0} = nodewise.GlowReal<scale=$i{1}_qScale, "
        "offset=$i{1}_qOffset>({0})\n",
        function_.inputs[i].name, i);
  }
  body_ += function_.body;
  body_ += '\n';
  for (size_t i = 0; i < function_.outputs.size(); ++i) {
    const auto type = GlowTypeOf(node_, fmt::format("o{}", i));
    if (!type.has_value() || !type->is_quantized()) continue;
    const std::string_view name = function_.outputs[i].name;
    if (in_steps_) {
      body_ += fmt::format("{0} = nodewise.GlowSteps<type=$o{1}_type>({0})\n",
                           name, i);
    } else if (takes_reals) {
      body_ += fmt::format(
          "{0} = nodewise.GlowStored<scale=$o{1}_qScale, "
          "offset=$o{1}_qOffset, type=$o{1}_type>({0})\n",
          name, i);
    }
  }
  function_.body = body_;
}

std::string_view GlowName(const proto::Node& node) {
  const std::string_view name = node.op_type();
  if (!node.domain().empty() || !name.starts_with(kGlowPrefix)) return "";
  return name.substr(kGlowPrefix.size());
}

}  // namespace

bool GlowType::is_quantized() const {
  const KindRow* const row = FindKind(kind);
  return row != nullptr && row->is_quantized;
}

bool IsGlow(const proto::Graph& graph) {
  return std::ranges::any_of(graph.node(), [](const proto::Node& node) {
    return node.domain().empty() && node.op_type().starts_with(kGlowPrefix);
  });
}

GlowTypes GlowTypesOf(const proto::Graph& graph) {
  GlowTypes types;
  const auto note = [&](const std::string& name,
                        const std::optional<GlowType>& type) {
    if (type.has_value()) types.emplace(name, *type);
  };
  for (const auto& input : graph.input()) {
    note(input.name(), GlowTypeIn(input.doc_string()));
  }
  for (const auto& tensor : graph.initializer()) {
    note(tensor.name(), GlowTypeIn(tensor.doc_string()));
  }
  for (const proto::Node& node : graph.node()) {
    for (int i = 0; i < node.output_size(); ++i) {
      note(node.output(i), GlowTypeOf(node, fmt::format("o{}", i)));
    }
    // What Glow writes for an output of the network states no type in older
    // models.
    if (node.op_type() != "Identity" || node.input_size() != 1 ||
        node.output_size() != 1) {
      continue;
    }
    if (const GlowType* const from = FindOrNull(types, node.input(0))) {
      types.emplace(node.output(0), *from);
    }
  }
  return types;
}

void GraphImporter::ReadGlow(const proto::Graph& graph) {
  is_glow_ = IsGlow(graph);
  if (!is_glow_) return;
  glow_types_ = GlowTypesOf(graph);
  for (const proto::Node& node : graph.node()) {
    glow_read_.insert(node.input().begin(), node.input().end());
  }
  for (const auto& output : graph.output()) glow_read_.insert(output.name());
}

bool GraphImporter::ImportGlow(NodeParts& parts) {
  const proto::Node& node = parts.node;
  // Where Glow wrote down how a constant was made, the constant is there, too;
  // a note of a type and a mark in a trace make nothing.
  for (const std::string_view note :
       {"Glow__ConstFoldSubgraph", "Glow__StaticPHDummyNode",
        "Glow_TraceEvent"}) {
    if (node.domain().empty() && node.op_type() == note) return true;
  }
  const bool is_identity =
      is_glow_ && node.domain().empty() && node.op_type() == "Identity";
  const std::string_view name = GlowName(node);
  if (!is_identity && name.empty()) return false;
  // Attributes of an Identity are notes of types, and those of a call are in
  // the function's lines.
  proto::Node plain = node;
  plain.clear_attribute();
  NodeParts own{plain, parts.scope, parts.name, parts.where, parts.opset};
  if (is_identity) {
    ImportOperation(own);
    return true;
  }
  const auto refuse = [&](std::string found, std::string expected) {
    AddOfOperator(parts, network_kinds::kUnsupported, Severity::kError,
                  std::move(found), std::move(expected));
    BreakOutputs(parts);
    return true;
  };
  const ContribFunction* const row =
      FindContribFunction(kGlowDomain, name, KnownOpset(state_.opsets, ""));
  if (row == nullptr) {
    const char* const reason = RefusalReason(name);
    if (reason != nullptr) {
      return refuse(fmt::format("is not supported: it {}", reason),
                    "operators of Glow's that have a definition in numbers");
    }
    return refuse("is not known",
                  "an operator of Glow's that is known" +
                      DidYouMean(std::string(name), ContribNames(kGlowDomain)));
  }
  GlowNode glow(*row, node, glow_types_, state_.options.glow);
  const absl::Status prepared = glow.Prepare();
  if (!prepared.ok()) {
    return refuse(std::string(MessageOf(prepared)), "another form of it");
  }
  // Glow names all outputs, wanted or not.
  for (std::string& output : *plain.mutable_output()) {
    if (!glow_read_.contains(output)) output.clear();
  }
  const auto find = [&](std::string_view wanted) { return glow.Find(wanted); };
  ImportContrib(glow.function(), own, find, kTypeAttributes);
  NoteCall(*row, parts);
  return true;
}

// The network has several operations where the model has one node; a user who
// compares with a run of Glow's wants the node's name and its values' roles.
void GraphImporter::NoteCall(const ContribFunction& row,
                             const NodeParts& parts) {
  if (state_.options.calls == nullptr) return;
  ImportedCall call{parts.name, std::string(row.name), {}, {}};
  const auto note = [&](const auto& params, const auto& names,
                        std::vector<ImportedCall::Role>* roles) {
    for (size_t i = 0; i < static_cast<size_t>(names.size()); ++i) {
      const size_t param = std::min(i, params.size() - 1);
      std::string role(params[param].name);
      if (param < i) role += fmt::format("_{}", i - param);
      const Binding* const found =
          FindOrNull(parts.scope.values, names[static_cast<int>(i)]);
      if (found == nullptr || found->value == kNoValue) continue;
      roles->push_back({std::move(role), network_.value(found->value).name});
    }
  };
  note(row.inputs, parts.node.input(), &call.inputs);
  note(row.outputs, parts.node.output(), &call.outputs);
  state_.options.calls->push_back(std::move(call));
}

}  // namespace nodewise
