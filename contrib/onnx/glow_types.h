#pragma once

// What Glow's models say about the types of values: in attributes of nodes
// (i0_elemKind, o0_qScale, ...) and in the notes of inputs and constants
// ("$elemKind:i8$qScale:0.5$qOffset:-3").

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "contrib/onnx/onnx_types.h"

namespace nodewise {

// The opset of ONNX's own operators that Glow's are told in, and that of those
// that read floats out of bytes (BitCast).
inline constexpr int kGlowOpset = 21;
inline constexpr int kGlowBytesOpset = 26;

inline constexpr std::string_view kGlowPrefix = "Glow_";

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

// Returns ONNX's number for the elements of a kind; none for an unknown one.
std::optional<int64_t> OnnxNumberOfGlow(std::string_view kind);

// Returns the type that a note states; none if it states none.
std::optional<GlowType> GlowTypeIn(std::string_view note);

// Returns the type that a node states for its input or output ("i0", "o1");
// none if it states none.
std::optional<GlowType> GlowTypeOf(const proto::Node& node,
                                   const std::string& which);

// Whether a graph has nodes that Glow writes as its own.
bool IsGlow(const proto::Graph& graph);

// The types of a graph's values, by name.
using GlowTypes = std::map<std::string, GlowType, std::less<>>;
GlowTypes GlowTypesOf(const proto::Graph& graph);

}  // namespace nodewise
