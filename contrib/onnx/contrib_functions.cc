#include "contrib/onnx/contrib_functions.h"

#include <algorithm>

namespace nodewise {
namespace {

constexpr absl::Span<const ContribFunction> (*kTables[])() = {
    LayerFunctions,     QuantizedFunctions,   AttentionFunctions,
    ClassicFunctions,   GlowElementFunctions, GlowFeatureFunctions,
    GlowLayerFunctions, GlowLookupFunctions,  GlowShapeFunctions};

}  // namespace

std::vector<const ContribFunction*> ContribFunctions() {
  std::vector<const ContribFunction*> all;
  for (const auto table : kTables) {
    for (const ContribFunction& function : table()) all.push_back(&function);
  }
  return all;
}

const ContribFunction* FindContribFunction(std::string_view domain,
                                           std::string_view name, int opset) {
  if (domain.empty()) return nullptr;
  for (const auto table : kTables) {
    for (const ContribFunction& function : table()) {
      if (function.name == name && function.domain == domain &&
          opset >= function.opset) {
        return &function;
      }
    }
  }
  return nullptr;
}

std::vector<std::string> ContribNames(std::string_view domain) {
  std::vector<std::string> names;
  for (const ContribFunction* const function : ContribFunctions()) {
    if (function->domain == domain &&
        std::find(names.begin(), names.end(), function->name) == names.end()) {
      names.emplace_back(function->name);
    }
  }
  return names;
}

}  // namespace nodewise
