#pragma once

// Operators of onnxruntime's own domain, com.microsoft, and of ONNX's for
// classical models, ai.onnx.ml, that are imported as what they mean in
// operators of ONNX's main one.

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

struct NoInts {};    // An empty list of integers.
struct NoFloats {};  // An empty list of floats.
struct FunctionAttribute {
  std::string_view name;
  // Its default, and its type where there is none.
  std::variant<int64_t, float, std::string_view, NoFloats, NoInts> fallback;
  bool is_required = false;
};

struct ContribFunction {
  std::string_view name;
  std::string_view domain = kContribDomain;
  // The first opset of ONNX's own domain that has the operators of the body.
  int opset = 7;
  RowList<Param, 20> inputs = {};  // The last one may be variadic.
  RowList<Param, 4> outputs = {};
  RowList<FunctionAttribute, 20> attributes = {};
  // An operator of ONNX whose attributes the node may have too; the body hands
  // them on.
  std::string_view passes = "";
  std::string_view body;  // See function_body.h.
};

// The tables: layers and what is fused; quantized operators; attention;
// classical models. Of
// several rows with one name the one of the newest opset comes first.
absl::Span<const ContribFunction> LayerFunctions();
absl::Span<const ContribFunction> QuantizedFunctions();
absl::Span<const ContribFunction> AttentionFunctions();
absl::Span<const ContribFunction> ClassicFunctions();
// Returns the rows of all tables.
std::vector<const ContribFunction*> ContribFunctions();

// Returns the function that holds in this opset of ONNX's own domain, or null.
const ContribFunction* FindContribFunction(std::string_view domain,
                                           std::string_view name, int opset);

// Returns the names of a domain, each once.
std::vector<std::string> ContribNames(std::string_view domain);

}  // namespace nodewise
