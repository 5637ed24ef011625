// float16 and bfloat16.

#include <algorithm>
#include <string_view>

#include "contrib/precision/network_copy.h"
#include "contrib/precision/precision_plan.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/support/status_macros.h"

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
class ShortFloatMaker {
 public:
  ShortFloatMaker(ShortFloatForm form, const PrecisionPlan& plan,
                  NetworkCopy copy, PrecisionReport* report)
      : type_(form.type),
        clip_(form.clip),
        plan_(plan),
        copy_(std::move(copy)),
        report_(report) {}

  absl::StatusOr<Network> Make() {
    const Network& old = copy_.old();
    for (const OperationId id : old.order()) {
      NODEWISE_RETURN_IF_ERROR(AddOne(old.operation(id)));
    }
    // Outputs keep their types.
    for (const ValueId id : old.outputs()) {
      NODEWISE_RETURN_IF_ERROR(Full(id).status());
    }
    return copy_.Finish();
  }

 private:
  absl::Status AddOne(const Operation& operation) {
    const PrecisionPlan::Step* const step = plan_.StepOf(operation.id);
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
                                 plan_.StepOf(operation.id) != nullptr &&
                                 copy_.old().value(old).type.dtype == kFloat32;
      suffixes.push_back(becomes_short && copy_.IsOutput(old) ? Suffix() : "");
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        copy_.AddAs(operation, operation.attrs, std::move(inputs), suffixes));
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId old = operation.outputs[i];
      if (old == kNoValue) continue;
      const NetworkValue& value = copy_.made().value(made[i]);
      // Some operators make float32 whatever they read.
      const bool is_short = value.type.dtype == type_ &&
                            copy_.old().value(old).type.dtype == kFloat32;
      if (is_short) {
        short_[old] = made[i];
        if (clip_ && NeedsClip(operation)) {
          NODEWISE_ASSIGN_OR_RETURN(short_[old], Clipped(made[i]));
        }
      } else {
        copy_.Set(old, made[i]);
      }
      report_->stands_for[copy_.NameOf(old)] = value.name;
    }
    return absl::OkStatus();
  }

  // Returns the value with the type that it has in the old network.
  absl::StatusOr<ValueId> Full(ValueId old) {
    const auto found = short_.find(old);
    if (copy_.Has(old) || found == short_.end()) return copy_.Of(old);
    const std::string& name = copy_.NameOf(old);
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId made,
        copy_.Add(ops::Cast{kFloat32}, {found->second}, name + "_float32",
                  copy_.IsOutput(old) ? name : ""));
    copy_.Set(old, made);
    return made;
  }

  absl::StatusOr<ValueId> Short(ValueId old) {
    const auto found = short_.find(old);
    if (found != short_.end()) return found->second;
    const NetworkValue& value = copy_.old().value(old);
    ValueId made = BeforeCast(value);
    if (value.kind == NetworkValue::Kind::kConstant) {
      NODEWISE_ASSIGN_OR_RETURN(made, Constant(value));
    } else if (made == kNoValue) {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId full, Full(old));
      NODEWISE_ASSIGN_OR_RETURN(
          made, copy_.Add(ops::Cast{type_}, {full}, value.name + Suffix()));
      if (clip_) {
        NODEWISE_ASSIGN_OR_RETURN(made, Clipped(made));
      }
    }
    short_[old] = made;
    return made;
  }

  // Returns what a Cast of the network's own made the value of, if that has the
  // type already.
  ValueId BeforeCast(const NetworkValue& value) {
    if (value.producer == kNoOperation) return kNoValue;
    const Operation& maker = copy_.old().operation(value.producer);
    if (maker.attrs.As<ops::Cast>() == nullptr) return kNoValue;
    const NetworkValue& from = copy_.old().value(maker.inputs[0]);
    if (!(from.type.dtype == type_)) return kNoValue;
    return copy_.Of(from.id).value_or(kNoValue);
  }

  absl::StatusOr<ValueId> Constant(const NetworkValue& value) {
    NODEWISE_ASSIGN_OR_RETURN(ShortFloats made,
                              ToShortFloats(value.data, type_));
    if (made.cut_off > 0) {
      report_->notes.push_back(
          fmt::format("constant {}: {} of its numbers are beyond the largest "
                      "of {}, which took their place",
                      value.name, made.cut_off, ToString(type_)));
    }
    return copy_.AddConstant(value.name + Suffix(), std::move(made.data));
  }

  // Returns the value with the largest numbers of the type in place of what is
  // beyond them.
  absl::StatusOr<ValueId> Clipped(ValueId made) {
    for (ValueId* const bound : {&least_, &most_}) {
      if (*bound != kNoValue) continue;
      const double largest = type_ == kFloat16 ? 65504 : 0x1.FEp127;
      const double number = bound == &least_ ? -largest : largest;
      NODEWISE_ASSIGN_OR_RETURN(NDArray data, NDArray::Empty({}, type_, kCpu));
      StoreDoubles(&number, 0, 1, data);
      NODEWISE_ASSIGN_OR_RETURN(
          *bound, copy_.AddConstant(bound == &least_ ? "least" : "most",
                                    std::move(data)));
    }
    const std::string name = copy_.made().value(made).name + "_clipped";
    return copy_.Add(ops::Clip{}, {made, least_, most_}, name);
  }

  std::string Suffix() const { return "_" + ToString(type_); }

  const DLDataType type_;
  const bool clip_;
  ValueId least_ = kNoValue;
  ValueId most_ = kNoValue;
  const PrecisionPlan& plan_;
  NetworkCopy copy_;
  PrecisionReport* const report_;
  std::unordered_map<ValueId, ValueId> short_;
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
  return ShortFloatMaker(form, plan, std::move(copy), report).Make();
}

}  // namespace nodewise
