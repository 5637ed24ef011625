#include "nodewise/interp/reference_target.h"

#include <algorithm>

namespace nodewise {
namespace {

// An operation whose types are all known beforehand is checked and inferred
// once, when the interpreter is made.
Support AskReference(const OpAttrs& attrs, const Inputs& inputs,
                     absl::Span<const OutputInfo> outputs) {
  Support support;
  if (attrs.def().evaluate == nullptr) {
    support.can = false;
    support.why_not = "it has no definition to compute it by";
    return support;
  }
  bool is_known = std::all_of(
      outputs.begin(), outputs.end(),
      [](const OutputInfo& output) { return output.type.is_static(); });
  for (size_t i = 0; i < inputs.size(); ++i) {
    is_known = is_known && (!inputs.has(i) || inputs.type(i).is_static());
  }
  if (!is_known) {
    support.penalties = {
        "its types are not all known beforehand, so it is checked and inferred "
        "again in each run"};
  }
  return support;
}

}  // namespace

const Target& ReferenceTarget() {
  static constexpr Target kReference = {{"reference", "cpu"}, &AskReference};
  return kReference;
}

}  // namespace nodewise
