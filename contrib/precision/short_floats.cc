// Makes networks of float16 or bfloat16, with a Cast wherever the type changes.

#include <algorithm>
#include <string_view>

#include "contrib/precision/lowered_constants.h"
#include "contrib/precision/network_copy.h"
#include "contrib/precision/precision_plan.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// An operation that only moves numbers, or makes none beyond 1, cannot make an
// infinity.
bool NeedsClip(const Operation& operation) {
  constexpr std::string_view kSafe[] = {
      "Concat",  "Gather", "Reshape",  "Slice",     "Tile",    "Transpose",
      "Sigmoid", "Tanh",   "Identity", "Unsqueeze", "Squeeze", "Expand"};
  return std::ranges::find(kSafe, operation.kind()) == std::end(kSafe);
}

// A value has up to two forms in the new network: the short one, and the one of
// the old type. Each is made when it is first read and then shared, so that
// there is one Cast at most in each direction.
struct ShortFloatMaker {
  const DLDataType type;
  const bool clip;
  const PrecisionPlan& plan;
  NetworkCopy copy;
  PrecisionReport* const report;
  // The bounds of Clip, made when they are first needed.
  ValueId least = kNoValue;
  ValueId most = kNoValue;
  std::unordered_map<ValueId, ValueId> short_values = {};

  absl::StatusOr<Network> Make() {
    const Network& old = copy.old();
    for (const OperationId id : old.order()) {
      NODEWISE_RETURN_IF_ERROR(AddOne(old.operation(id)));
    }
    // Outputs keep their types.
    for (const ValueId id : old.outputs()) {
      NODEWISE_RETURN_IF_ERROR(Full(id).status());
    }
    return copy.Finish();
  }

 private:
  absl::Status AddOne(const Operation& operation) {
    const PrecisionPlan::Step* const step = plan.StepOf(operation.id);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      const bool lower = step != nullptr && step->inputs[i];
      const ValueId old = operation.inputs[i];
      NODEWISE_ASSIGN_OR_RETURN(inputs.emplace_back(),
                                lower ? Short(old) : Full(old));
    }
    return AddOperation(operation, std::move(inputs));
  }

  absl::Status AddOperation(const Operation& operation,
                            std::vector<ValueId> inputs) {
    // An output of the network keeps its name, which the cast back gets.
    std::vector<std::string> suffixes;
    for (const ValueId old : operation.outputs) {
      const bool becomes_short = old != kNoValue &&
                                 plan.StepOf(operation.id) != nullptr &&
                                 copy.old().value(old).type.dtype == kFloat32;
      // Other values keep their names, so that users find them.
      suffixes.push_back(becomes_short && copy.IsOutput(old) ? Suffix() : "");
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        copy.AddAs(operation, operation.attrs, std::move(inputs), suffixes));
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId old = operation.outputs[i];
      if (old == kNoValue) continue;
      const NetworkValue& value = copy.made().value(made[i]);
      // Some operators make float32 of every type.
      const bool is_short = value.type.dtype == type &&
                            copy.old().value(old).type.dtype == kFloat32;
      if (is_short) {
        short_values[old] = made[i];
        if (clip && NeedsClip(operation)) {
          NODEWISE_ASSIGN_OR_RETURN(short_values[old], Clipped(made[i]));
        }
      } else {
        copy.Set(old, made[i]);
      }
      report->stands_for[copy.NameOf(old)] = value.name;
    }
    return absl::OkStatus();
  }

  // Returns the value with the type that it has in the old network.
  absl::StatusOr<ValueId> Full(ValueId old) {
    const auto found = short_values.find(old);
    if (copy.Has(old) || found == short_values.end()) return copy.ValueFor(old);
    const std::string& name = copy.NameOf(old);
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId made,
        copy.Add(ops::Cast{kFloat32}, {found->second}, name + "_float32",
                 copy.IsOutput(old) ? name : ""));
    copy.Set(old, made);
    return made;
  }

  absl::StatusOr<ValueId> Short(ValueId old) {
    const auto found = short_values.find(old);
    if (found != short_values.end()) return found->second;
    const NetworkValue& value = copy.old().value(old);
    ValueId made = BeforeCast(value);
    if (value.kind == NetworkValue::Kind::kConstant) {
      NODEWISE_ASSIGN_OR_RETURN(made, Constant(value));
    } else if (made == kNoValue) {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId full, Full(old));
      NODEWISE_ASSIGN_OR_RETURN(
          made, copy.Add(ops::Cast{type}, {full}, value.name + Suffix()));
      if (clip) {
        NODEWISE_ASSIGN_OR_RETURN(made, Clipped(made));
      }
    }
    short_values[old] = made;
    return made;
  }

  // A Cast from the short type to a longer one rounds nothing, so to cast its
  // result back would only give again what it was made of.
  ValueId BeforeCast(const NetworkValue& value) {
    if (value.producer == kNoOperation) return kNoValue;
    const Operation& maker = copy.old().operation(value.producer);
    if (maker.attrs.As<ops::Cast>() == nullptr) return kNoValue;
    const NetworkValue& from = copy.old().value(maker.inputs[0]);
    if (!(from.type.dtype == type)) return kNoValue;
    return copy.ValueFor(from.id).value_or(kNoValue);
  }

  absl::StatusOr<ValueId> Constant(const NetworkValue& value) {
    NODEWISE_ASSIGN_OR_RETURN(ShortFloats made,
                              ToShortFloats(value.data, type));
    if (made.cut_off > 0) {
      report->notes.push_back(
          fmt::format("constant {}: {} of its numbers are beyond the largest "
                      "of {}, which took their place",
                      value.name, made.cut_off, ToString(type)));
    }
    return copy.AddConstant(value.name + Suffix(), std::move(made.data));
  }

  // Returns the value with the largest numbers of the type in place of what is
  // beyond them.
  absl::StatusOr<ValueId> Clipped(ValueId made) {
    for (ValueId* const bound : {&least, &most}) {
      if (*bound != kNoValue) continue;
      const double largest = type == kFloat16 ? 65504 : 0x1.FEp127;
      const double number = bound == &least ? -largest : largest;
      NODEWISE_ASSIGN_OR_RETURN(NDArray data, FromDoubles({number}, {}, type));
      NODEWISE_ASSIGN_OR_RETURN(
          *bound, copy.AddConstant(bound == &least ? "least" : "most",
                                   std::move(data)));
    }
    const std::string name = copy.made().value(made).name + "_clipped";
    return copy.Add(ops::Clip{}, {made, least, most}, name);
  }

  std::string Suffix() const { return "_" + ToString(type); }
};

}  // namespace

void PlanShortFloats(DLDataType type, const Network& network,
                     PrecisionPlan* plan) {
  PlanOperations(
      network,
      [&](const Operation& operation) -> absl::StatusOr<PrecisionPlan::Step> {
        NODEWISE_ASSIGN_OR_RETURN(std::vector<bool> inputs,
                                  InputsThatMayBe(type, network, operation));
        return PrecisionPlan::Step{std::move(inputs)};
      },
      plan);
}

absl::StatusOr<Network> MakeShortFloats(ShortFloatForm form,
                                        const Network& network,
                                        const PrecisionPlan& plan,
                                        PrecisionReport* report) {
  NODEWISE_ASSIGN_OR_RETURN(NetworkCopy copy, NetworkCopy::Begin(network));
  return ShortFloatMaker{form.type, form.clip, plan, std::move(copy), report}
      .Make();
}

}  // namespace nodewise
