#pragma once

// Operators of onnxruntime's own domain, com.microsoft, that are imported as
// what they mean in operators of ONNX's.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

inline constexpr std::string_view kContribDomain = "com.microsoft";

struct FunctionAttribute {
  std::string_view name;
  // Its default; std::monostate: an empty list of floats.
  std::variant<int64_t, float, std::string_view, std::monostate> fallback;
};

struct ContribFunction {
  std::string_view name;
  // The first opset of ONNX's own domain that has the operators of the body.
  int opset = 7;
  RowList<Param, 16> inputs = {};
  RowList<Param, 16> outputs = {};
  RowList<FunctionAttribute, 8> attributes = {};
  // An operator of ONNX whose attributes the node may have too; the body hands
  // them on.
  std::string_view passes = "";
  std::string_view body;  // See function_body.h.
};

// All of them; of several with one name the one of the newest opset comes
// first.
absl::Span<const ContribFunction> ContribFunctions();

// Returns the function that holds in this opset of ONNX's own domain, or null.
const ContribFunction* FindContribFunction(std::string_view domain,
                                           std::string_view name, int opset);

// Returns the names, each once.
std::vector<std::string> ContribNames();

}  // namespace nodewise
