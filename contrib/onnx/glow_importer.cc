// Imports Glow's own operators as calls of what they mean.

#include <algorithm>

#include "contrib/onnx/contrib_call.h"
#include "contrib/onnx/glow_types.h"
#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// An operator that Glow writes and that is not supported, and why.
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
const char* WhyRefused(std::string_view name) {
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
    {"i0_qScale", 0.0F},
    {"i0_qOffset", int64_t{0}},
    {"i1_qScale", 0.0F},
    {"i1_qOffset", int64_t{0}},
    {"i2_qScale", 0.0F},
    {"i2_qOffset", int64_t{0}},
    {"i3_qScale", 0.0F},
    {"i3_qOffset", int64_t{0}},
    {"i4_qScale", 0.0F},
    {"i4_qOffset", int64_t{0}},
    {"i5_qScale", 0.0F},
    {"i5_qOffset", int64_t{0}},
    {"i6_qScale", 0.0F},
    {"i6_qOffset", int64_t{0}},
    {"o0_qScale", 0.0F},
    {"o0_qOffset", int64_t{0}},
    {"o1_qScale", 0.0F},
    {"o1_qOffset", int64_t{0}},
    {"i0_shape", NoInts()},
    {"o0_shape", NoInts()},
    {"o1_shape", NoInts()},
    {"o0_type", int64_t{1}},
    {"o1_type", int64_t{1}},
    {"steps", int64_t{0}},
    {"i0_kind", std::string_view("")},
    {"i1_last", int64_t{0}},
};

proto::Attribute MadeAttribute(const std::string& name, int64_t value) {
  proto::Attribute made;
  made.set_name(name);
  made.set_type(static_cast<int>(AttributeType::kInt));
  made.set_i(value);
  return made;
}

proto::Attribute MadeAttribute(const std::string& name, float value) {
  proto::Attribute made;
  made.set_name(name);
  made.set_type(static_cast<int>(AttributeType::kFloat));
  made.set_f(value);
  return made;
}

// Offsets are given in the type of the numbers.
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
    return absl::InvalidArgumentError(
        fmt::format("attribute {}_qOffset: is {}, expected {} to {} for {}",
                    which, type.offset, range.least, range.most, type.kind));
  }
  return absl::OkStatus();
}

}  // namespace

// A node of Glow's, ready to be imported as a call.
class GlowNode {
 public:
  GlowNode(const ContribFunction& row, const proto::Node& node,
           const GlowTypes& types, const GlowOptions& options)
      : function_(row), node_(node), types_(types), options_(options) {}

  // Notes the types, and makes a body that takes what is quantized for what it
  // means.
  absl::Status Prepare();
  const ContribFunction& function() const { return function_; }
  // Returns an attribute of the node, or one that says its types; or null.
  const proto::Attribute* Find(std::string_view name) const;

 private:
  std::optional<GlowType> InputType(int i) const;
  absl::Status NoteTypes();
  void WrapReals();

  ContribFunction function_;
  const proto::Node& node_;
  const GlowTypes& types_;
  const GlowOptions& options_;
  std::string body_;
  std::map<std::string, proto::Attribute, std::less<>> made_;
  bool in_steps_ = false;
};

const proto::Attribute* GlowNode::Find(std::string_view name) const {
  const auto made = made_.find(name);
  if (made != made_.end()) return &made->second;
  for (const proto::Attribute& given : node_.attribute()) {
    if (given.name() == name) return &given;
  }
  return nullptr;
}

std::optional<GlowType> GlowNode::InputType(int i) const {
  const auto stated = GlowTypeOf(node_, fmt::format("i{}", i));
  if (stated.has_value()) return stated;
  const auto found = types_.find(node_.input(i));
  if (found == types_.end()) return std::nullopt;
  return found->second;
}

absl::Status GlowNode::NoteTypes() {
  const auto note = [&](const std::string& which, const GlowType& type) {
    if (type.is_quantized()) {
      made_[which + "_qScale"] = MadeAttribute(which + "_qScale", type.scale);
      made_[which + "_qOffset"] =
          MadeAttribute(which + "_qOffset", type.offset);
    } else {
      // Glow writes a scale of no meaning for rows of bytes.
      made_[which + "_qScale"] = MadeAttribute(which + "_qScale", 0.0F);
    }
    return CheckOffset(which, type);
  };
  const bool takes_rows = function_.body.find("_kind") != std::string::npos;
  for (int i = 0; i < node_.input_size(); ++i) {
    const auto type = InputType(i);
    if (!type.has_value()) continue;
    const std::string which = fmt::format("i{}", i);
    NODEWISE_RETURN_IF_ERROR(note(which, *type));
    if (!type->is_fused()) continue;
    if (i > 0 || !takes_rows) {
      return absl::UnimplementedError(
          fmt::format("is not supported with rows of {}", type->kind));
    }
    proto::Attribute& kind = made_["i0_kind"];
    kind.set_name("i0_kind");
    kind.set_type(static_cast<int>(AttributeType::kString));
    kind.set_s(type->kind);
    if (options_.half_scales && type->kind == "ui8fused") {
      kind.set_s("ui8fusedrounded");
    }
  }
  const proto::Attribute* const sides = Find("i1_shape");
  if (sides != nullptr && sides->ints_size() > 0) {
    made_["i1_last"] =
        MadeAttribute("i1_last", sides->ints(sides->ints_size() - 1));
  }
  for (int i = 0; i < node_.output_size(); ++i) {
    const std::string which = fmt::format("o{}", i);
    const auto type = GlowTypeOf(node_, which);
    if (!type.has_value()) continue;
    NODEWISE_RETURN_IF_ERROR(note(which, *type));
    const auto number = OnnxNumberOfGlow(type->kind);
    if (!number.has_value() || type->is_fused()) {
      return absl::UnimplementedError(
          fmt::format("attribute {}_elemKind: is {}, which is not supported",
                      which, Shortened(type->kind)));
    }
    made_[which + "_type"] = MadeAttribute(which + "_type", *number);
    if (i == 0) in_steps_ = type->kind == "i8";
  }
  in_steps_ = in_steps_ && function_.numbers == GlowNumbers::kSteps;
  constexpr char kHalfSums[] = "UseFP16Accumulation";
  if (options_.half_sums)
    made_[kHalfSums] = MadeAttribute(kHalfSums, int64_t{1});
  made_["steps"] = MadeAttribute("steps", int64_t{in_steps_ ? 1 : 0});
  return absl::OkStatus();
}

// Puts lines around the body that make real numbers of what is quantized.
void GlowNode::WrapReals() {
  body_.clear();
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

absl::Status GlowNode::Prepare() {
  NODEWISE_RETURN_IF_ERROR(NoteTypes());
  WrapReals();
  return absl::OkStatus();
}

// Returns the name behind Glow_; empty for a node that is not Glow's.
std::string_view GraphImporter::GlowName(const proto::Node& node) {
  const std::string_view name = node.op_type();
  if (!node.domain().empty() || !name.starts_with(kGlowPrefix)) return "";
  return name.substr(kGlowPrefix.size());
}

// Notes what Glow's model says about types and which of its values are read.
void GraphImporter::ReadGlow(const proto::Graph& graph) {
  is_glow_ = IsGlow(graph);
  if (!is_glow_) return;
  glow_types_ = GlowTypesOf(graph);
  for (const proto::Node& node : graph.node()) {
    glow_read_.insert(node.input().begin(), node.input().end());
  }
  for (const auto& output : graph.output()) glow_read_.insert(output.name());
}

// Imports a node of Glow's. Returns false if it is none.
bool GraphImporter::ImportGlow(const proto::Node& node, const NodeParts& parts,
                               Scope* scope) {
  // Where Glow wrote down how a constant was made, the constant is there, too;
  // a note of a type and a mark in a trace make nothing.
  for (const std::string_view note :
       {"Glow__ConstFoldSubgraph", "Glow__StaticPHDummyNode",
        "Glow_TraceEvent"}) {
    if (node.domain().empty() && node.op_type() == note) return true;
  }
  if (is_glow_ && node.domain().empty() && node.op_type() == "Identity") {
    // It carries notes of types.
    proto::Node plain = node;
    plain.clear_attribute();
    NodeParts own = parts;
    ImportOperation(plain, &own, scope);
    return true;
  }
  const std::string_view name = GlowName(node);
  if (name.empty()) return false;
  const auto refuse = [&](std::string found, std::string expected) {
    state_.AddOfOperator(network_kinds::kUnsupported, parts.where, parts.name,
                         OperatorName(node), Severity::kError, std::move(found),
                         std::move(expected));
    BreakOutputs(node, parts.where, scope);
    return true;
  };
  const auto opset = state_.opsets.find("");
  const ContribFunction* const row = FindContribFunction(
      kGlowDomain, name, opset == state_.opsets.end() ? 0 : opset->second);
  if (row == nullptr) {
    const char* const reason = WhyRefused(name);
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
  // The call has no attributes: they are in the function's lines.
  proto::Node call = node;
  call.clear_attribute();
  for (std::string& output : *call.mutable_output()) {
    if (glow_read_.count(output) == 0) output.clear();
  }
  const auto find = [&](std::string_view wanted) { return glow.Find(wanted); };
  ImportContrib(glow.function(), call, parts.name, parts.where, scope, find,
                kTypeAttributes);
  NoteCall(*row, node, parts.name, *scope);
  return true;
}

void GraphImporter::NoteCall(const ContribFunction& row,
                             const proto::Node& node, const std::string& name,
                             const Scope& scope) {
  if (state_.options.calls == nullptr) return;
  ImportedCall call{name, std::string(row.name), {}, {}};
  const auto note = [&](const auto& params, const auto& names,
                        std::vector<ImportedCall::Role>* roles) {
    for (size_t i = 0; i < static_cast<size_t>(names.size()); ++i) {
      const size_t param = std::min(i, params.size() - 1);
      std::string role(params[param].name);
      if (param < i) role += fmt::format("_{}", i - param);
      const auto found = scope.values.find(names[static_cast<int>(i)]);
      if (found == scope.values.end() || found->second.value == kNoValue) {
        continue;
      }
      roles->push_back(
          {std::move(role), network_.value(found->second.value).name});
    }
  };
  note(row.inputs, node.input(), &call.inputs);
  note(row.outputs, node.output(), &call.outputs);
  state_.options.calls->push_back(std::move(call));
}

}  // namespace nodewise
