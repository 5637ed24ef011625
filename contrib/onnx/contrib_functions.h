#pragma once

// Operators of onnxruntime's own domain, com.microsoft, of ONNX's for
// classical models, ai.onnx.ml, and those that Glow writes, which are imported
// as what they mean in operators of ONNX's main one.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

inline constexpr std::string_view kContribDomain = "com.microsoft";
inline constexpr std::string_view kClassicDomain = "ai.onnx.ml";
// The domain of functions that the others call.
inline constexpr std::string_view kHelperDomain = "nodewise";
// Stands for the operators that Glow writes as Glow_NAME in ONNX's own domain.
inline constexpr std::string_view kGlowDomain = "glow";
inline constexpr std::string_view kGlowPrefix = "Glow_";

// The opset of ONNX's own operators that Glow's are told in, and that of those
// that read floats out of bytes (BitCast).
inline constexpr int kGlowOpset = 21;
inline constexpr int kGlowBytesOpset = 26;

struct NoInts {};    // An empty list of integers.
struct NoFloats {};  // An empty list of floats.
struct FunctionAttribute {
  std::string_view name;
  // Its default, and its type where there is none.
  std::variant<int64_t, float, std::string_view, NoFloats, NoInts> fallback;
  bool is_required = false;
};

// What a body of Glow's domain takes numbers of quantized types for.
enum class GlowNumbers : uint8_t {
  kReals,   // Scaled; what it makes is quantized again.
  kStored,  // The integers: it only moves them, or says itself what they mean.
  // The integers, if the result has 8 bits (the attribute `steps` is 1 then):
  // it makes the number of steps of the result's scale, with the offset, which
  // is rounded half away from zero. Otherwise kReals.
  kSteps,
};

struct ContribFunction {
  std::string_view name;
  // The first opset of ONNX's own domain that has the operators of the body.
  int opset = 0;
  RowList<Param, 20> inputs = {};  // The last one may be variadic.
  RowList<Param, 4> outputs = {};
  RowList<FunctionAttribute, 20> attributes = {};
  std::string_view body;  // See function_body.h.
  std::string_view domain = kContribDomain;
  // An operator of ONNX whose attributes the node may have too; the body hands
  // them on.
  std::string_view passes = "";
  GlowNumbers numbers = GlowNumbers::kReals;
};

// Rows of the three other domains.
template <const std::string_view& kDomain>
constexpr ContribFunction RowIn(std::string_view name, int opset,
                                RowList<Param, 20> inputs,
                                RowList<Param, 4> outputs,
                                RowList<FunctionAttribute, 20> attributes,
                                std::string_view body) {
  return {name, opset, inputs, outputs, attributes, body, kDomain};
}
inline constexpr auto* kContribRow = &RowIn<kContribDomain>;
inline constexpr auto* kClassicRow = &RowIn<kClassicDomain>;
inline constexpr auto* kHelperRow = &RowIn<kHelperDomain>;

// Rows of Glow's domain. Nearly all of them have one output, which Glow calls
// Result, and need no operator that is newer than kGlowOpset; the name of the
// function says what they take quantized numbers for.
constexpr ContribFunction GlowRow(std::string_view name,
                                  RowList<Param, 20> inputs,
                                  RowList<FunctionAttribute, 20> attributes,
                                  std::string_view body,
                                  RowList<Param, 4> outputs = {"Result"},
                                  int opset = kGlowOpset) {
  return {name, opset, inputs, outputs, attributes, body, kGlowDomain};
}
constexpr ContribFunction GlowStoredRow(
    std::string_view name, RowList<Param, 20> inputs,
    RowList<FunctionAttribute, 20> attributes, std::string_view body,
    RowList<Param, 4> outputs = {"Result"}) {
  ContribFunction row = GlowRow(name, inputs, attributes, body, outputs);
  row.numbers = GlowNumbers::kStored;
  return row;
}
constexpr ContribFunction GlowStepsRow(
    std::string_view name, RowList<Param, 20> inputs,
    RowList<FunctionAttribute, 20> attributes, std::string_view body) {
  ContribFunction row = GlowRow(name, inputs, attributes, body);
  row.numbers = GlowNumbers::kSteps;
  return row;
}

// The tables: layers and what is fused; classical models; quantized operators;
// attention; Glow's, in five parts. If several rows have one name, the one of
// the newest opset comes first.
absl::Span<const ContribFunction> LayerFunctions();
absl::Span<const ContribFunction> ClassicFunctions();
absl::Span<const ContribFunction> QuantizedFunctions();
absl::Span<const ContribFunction> AttentionFunctions();
absl::Span<const ContribFunction> GlowQuantizedFunctions();
absl::Span<const ContribFunction> GlowElementFunctions();
absl::Span<const ContribFunction> GlowLayerFunctions();
absl::Span<const ContribFunction> GlowLookupFunctions();
absl::Span<const ContribFunction> GlowShapeFunctions();
// Returns the rows of all tables.
std::vector<const ContribFunction*> ContribFunctions();

// Returns the function that holds in this opset of ONNX's own domain, or null.
const ContribFunction* FindContribFunction(std::string_view domain,
                                           std::string_view name, int opset);

// Returns the names of a domain, each once.
std::vector<std::string> ContribNames(std::string_view domain);

}  // namespace nodewise
