#include "contrib/onnx/glow_types.h"

#include <algorithm>
#include <charconv>

#include "contrib/onnx/attributes.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

struct KindRow {
  std::string_view name;
  int64_t onnx;
  bool is_quantized;
};
constexpr KindRow kKinds[] = {
    {"float", 1, false},
    {"float16", 10, false},
    {"bfloat16", 16, false},
    {"float64", 11, false},
    {"i8", 3, true},
    {"ui8", 2, true},
    {"i16", 5, true},
    {"i32", 6, true},
    {"i64", 7, false},
    {"uindex8", 2, false},
    {"index32", 6, false},
    {"index64", 7, false},
    {"ui8fused", 2, false},
    {"ui8fusedfp16", 2, false},
    {"ui4fusedfp16", 2, false},
    {"ui4fused", 2, false},
    {"bool", 9, false},
};

const KindRow* FindKind(std::string_view kind) {
  for (const KindRow& row : kKinds) {
    if (row.name == kind) return &row;
  }
  return nullptr;
}

const proto::Attribute* FindAttribute(const proto::Node& node,
                                      const std::string& name) {
  for (const proto::Attribute& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

}  // namespace

bool GlowType::is_quantized() const {
  const KindRow* const row = FindKind(kind);
  return row != nullptr && row->is_quantized;
}

std::optional<int64_t> OnnxNumberOfGlow(std::string_view kind) {
  const KindRow* const row = FindKind(kind);
  if (row == nullptr) return std::nullopt;
  return row->onnx;
}

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

std::optional<GlowType> GlowTypeOf(const proto::Node& node,
                                   const std::string& which) {
  const proto::Attribute* const kind = FindAttribute(node, which + "_elemKind");
  if (kind == nullptr) return std::nullopt;
  GlowType type;
  type.kind = kind->s();
  if (const auto* const scale = FindAttribute(node, which + "_qScale")) {
    type.scale = scale->f();
  }
  if (const auto* const offset = FindAttribute(node, which + "_qOffset")) {
    type.offset = offset->i();
  }
  return type;
}

bool IsGlow(const proto::Graph& graph) {
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [](const proto::Node& node) {
                       return node.domain().empty() &&
                              node.op_type().rfind(kGlowPrefix, 0) == 0;
                     });
}

GlowTypes GlowTypesOf(const proto::Graph& graph) {
  GlowTypes types;
  const auto note = [&](const auto& named) {
    const auto type = GlowTypeIn(named.doc_string());
    if (type.has_value()) types.emplace(named.name(), *type);
  };
  for (const auto& input : graph.input()) note(input);
  for (const auto& tensor : graph.initializer()) note(tensor);
  for (const proto::Node& node : graph.node()) {
    for (int i = 0; i < node.output_size(); ++i) {
      const auto type = GlowTypeOf(node, fmt::format("o{}", i));
      if (type.has_value()) types.emplace(node.output(i), *type);
    }
    // What Glow writes for an output of the network states no type in older
    // models.
    if (node.op_type() != "Identity" || node.input_size() != 1 ||
        node.output_size() != 1) {
      continue;
    }
    const auto from = types.find(node.input(0));
    if (from != types.end()) types.emplace(node.output(0), from->second);
  }
  return types;
}

}  // namespace nodewise
