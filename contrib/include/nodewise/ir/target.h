#pragma once

#include "absl/types/span.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Something that networks are to run on. A network that has a target
// (Network::SetTarget) refuses edits that the target could not run; Verify()
// lists what targets refuse, and what is slow on them; passes ask instead of
// guessing from an operator's name.
struct Target {
  TargetTraits traits;
  // What the target says of one operation, beyond what its operator says; null:
  // it runs everything. It must not refuse because a type is unknown.
  Support (*ask)(const OpAttrs& attrs, const Inputs& inputs,
                 absl::Span<const OutputInfo> outputs) = nullptr;
};

// Asks the operator, then the target. REQUIRES: attrs.defined().
Support SupportOf(const Target& target, const OpAttrs& attrs,
                  const Inputs& inputs, absl::Span<const OutputInfo> outputs);

}  // namespace nodewise
