#include "nodewise/precision/precision.h"

#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "contrib/precision/precision_plan.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/precision/raise_opset.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

absl::Status CheckOutputs(DLDataType type, const Network& network,
                          const Operation& operation,
                          absl::Span<const OutputInfo> infos) {
  bool follows = false;
  bool has_floats = false;
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    if (operation.outputs[i] == kNoValue) continue;
    const TensorType& before = network.value(operation.outputs[i]).type;
    const TensorType& after = infos[i].type;
    if (before.shape != after.shape) {
      return FailedPrecondition("output {} would be of shape {}, expected {}",
                                i, ToString(after), ToString(before));
    }
    if (!(before.dtype == kFloat32)) continue;
    has_floats = true;
    follows |= after.dtype == type;
    if (after.dtype == type || after.dtype == kFloat32) continue;
    return FailedPrecondition("output {} would be of type {}", i,
                              ToString(after.dtype));
  }
  if (follows || !has_floats) return absl::OkStatus();
  return FailedPrecondition("its results would stay float32");
}

// Types are inferred as if the chosen inputs were of the other type already; no
// operation is made for it.
absl::Status Try(DLDataType type, const std::vector<bool>& chosen,
                 const Network& network, const Operation& operation) {
  std::vector<InputInfo> infos = network.InputsOf(operation.id);
  for (size_t i = 0; i < infos.size(); ++i) {
    if (!chosen[i]) continue;
    infos[i].type.dtype = type;
    infos[i].constant = nullptr;  // It is still one of float32.
  }
  const Inputs inputs(infos);
  const OpAttrs& attrs = operation.attrs;
  const OperatorDef& def = operation.def();
  if (def.check != nullptr) {
    NODEWISE_RETURN_IF_ERROR(def.check(attrs.get(), inputs));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const OutputInfos outputs,
      def.infer(attrs.get(), inputs, operation.outputs.size()));
  NODEWISE_RETURN_IF_ERROR(CheckOutputs(type, network, operation, outputs));
  if (network.target() == nullptr) return absl::OkStatus();
  const Support support = SupportOf(*network.target(), attrs, inputs, outputs);
  if (support.can) return absl::OkStatus();
  return absl::FailedPreconditionError(support.why_not);
}

struct PrecisionRow {
  Precision precision;
  const char* name;
  DLDataType type;
  // A network of an older opset is raised to `wanted_opset` if possible, else
  // as far as possible, but to `least_opset` at least.
  int wanted_opset;
  int least_opset;
};

constexpr PrecisionRow kPrecisions[] = {
    {Precision::kFloat16, "fp16", kFloat16, 6, 6},
    {Precision::kBfloat16, "bf16", kBfloat16, 13, 13},
    {Precision::kInt8, "int8", kInt8, 13, 10},
};

const PrecisionRow& RowOfPrecision(Precision precision) {
  return *std::ranges::find(kPrecisions, precision, &PrecisionRow::precision);
}

// Names come from files, and may be any bytes. RE2 takes time in proportion to
// their length, with every expression.
absl::StatusOr<std::unique_ptr<const RE2>> ParseKeep(const std::string& text) {
  if (text.empty()) return nullptr;
  RE2::Options options(RE2::Latin1);
  options.set_log_errors(false);
  auto expression = std::make_unique<const RE2>(text, options);
  if (expression->ok()) return expression;
  return InvalidArgument("keep: \"{}\" is not a regular expression of RE2: {}",
                         text, expression->error());
}

// The opset from which on the bounds of Clip are inputs.
constexpr int kClipOpset = 13;

absl::Status RaiseOpset(PrecisionRow row, bool clip, Network* network) {
  if (clip) {
    row.wanted_opset = std::max(row.wanted_opset, kClipOpset);
    row.least_opset = std::max(row.least_opset, kClipOpset);
  }
  const int before = network->opset();
  if (before >= row.wanted_opset) return absl::OkStatus();
  // This succeeds where all operations mean the same in both opsets.
  if (network->SetOpset("", row.wanted_opset).ok()) return absl::OkStatus();
  absl::Status why_not;
  // From the top: a newer opset has operators that the lowered network is
  // better written with.
  for (int opset = row.wanted_opset; opset >= row.least_opset && opset > before;
       --opset) {
    auto raised = InOpset(*network, opset);
    if (raised.ok()) {
      *network = *std::move(raised);
      return absl::OkStatus();
    }
    why_not = raised.status();
  }
  // The opset of the network is less good than a newer one, and good enough.
  if (before >= row.least_opset) return absl::OkStatus();
  return InvalidArgument("{} needs opset {}: {}", row.name, row.least_opset,
                         MessageOf(why_not));
}

// Returns why an operation is left alone regardless of what its operator takes;
// empty if there is no such reason.
std::string ReasonKnownBeforehand(const Network& network,
                                  const Operation& operation,
                                  const PrecisionOptions& options,
                                  const RE2* keep) {
  if (keep != nullptr && RE2::PartialMatch(operation.name, *keep)) {
    return "is kept";
  }
  if (options.only != nullptr && !options.only(operation)) {
    return "is not among those chosen";
  }
  // Bodies read values of the network around them, whose types would no longer
  // be those that they were checked with.
  for (const AttrField& field : operation.def().fields) {
    if (field.is_graph) return "has a body";
  }
  std::vector<ValueId> values = operation.inputs;
  values.insert(values.end(), operation.outputs.begin(),
                operation.outputs.end());
  for (const ValueId id : values) {
    if (id == kNoValue) continue;
    const DLDataType type = network.value(id).type.dtype;
    // Its numbers were chosen by another tool.
    if (type == kInt8 || type == kUint8) {
      return fmt::format("reads or makes {} already", ToString(type));
    }
  }
  return "";
}

void AddToReport(const Network& network, const PrecisionPlan& plan,
                 PrecisionReport* report) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const auto reason = plan.reasons.find(id);
    if (plan.StepOf(id) != nullptr) {
      report->changes.push_back(
          {operation.name, std::string(operation.kind())});
    } else if (reason != plan.reasons.end()) {
      report->left_alone.push_back(
          {operation.name, std::string(operation.kind()), reason->second});
    }
  }
}

void PlanKnownReasons(const Network& network, const PrecisionOptions& options,
                      const RE2* keep, PrecisionPlan* plan) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      if (!IsFloatInput(network, operation, i)) continue;
      std::string reason =
          ReasonKnownBeforehand(network, operation, options, keep);
      if (!reason.empty()) plan->reasons[id] = std::move(reason);
      break;
    }
  }
}

}  // namespace
bool IsFloatInput(const Network& network, const Operation& operation,
                  size_t i) {
  if (i >= operation.inputs.size()) return false;
  const ValueId id = operation.inputs[i];
  return id != kNoValue && network.value(id).type.dtype == kFloat32;
}

absl::StatusOr<std::vector<bool>> InputsThatMayBe(DLDataType type,
                                                  const Network& network,
                                                  const Operation& operation) {
  const size_t count = operation.inputs.size();
  std::vector<bool> all(count);
  size_t floats = 0;
  for (size_t i = 0; i < count; ++i) {
    all[i] = IsFloatInput(network, operation, i);
    floats += all[i] ? 1 : 0;
  }
  // All inputs, if that is possible: each that stays float32 needs a
  // conversion.
  absl::Status why_not = Try(type, all, network, operation);
  if (why_not.ok()) return all;
  // Inputs that must stay as they are, such as scales and ratios, mostly come
  // last.
  for (size_t i = count; i-- > 0 && floats > 1;) {
    if (!all[i]) continue;
    std::vector<bool> chosen = all;
    chosen[i] = false;
    if (Try(type, chosen, network, operation).ok()) return chosen;
  }
  std::vector<bool> first(count);
  if (count > 0) first[0] = all[0];
  if (floats > 2 && all[0] && Try(type, first, network, operation).ok()) {
    return first;
  }
  return why_not;
}

void PlanOperations(
    const Network& network,
    absl::FunctionRef<absl::StatusOr<PrecisionPlan::Step>(const Operation&)>
        step_of,
    PrecisionPlan* plan) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (plan->reasons.contains(id)) continue;
    // An operation without floats has nothing to lower, and reports leave it
    // out.
    bool reads_floats = false;
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      reads_floats |= IsFloatInput(network, operation, i);
    }
    if (!reads_floats) continue;
    auto step = step_of(operation);
    if (step.ok()) {
      plan->steps[id] = *std::move(step);
    } else {
      plan->reasons[id] = std::string(MessageOf(step.status()));
    }
  }
}

std::string_view ToString(Precision precision) {
  return RowOfPrecision(precision).name;
}

absl::StatusOr<Precision> ParsePrecision(const std::string& text) {
  for (const PrecisionRow& row : kPrecisions) {
    if (text == row.name) return row.precision;
  }
  return InvalidArgument("precision: found \"{}\", expected fp16, bf16 or int8",
                         text);
}

std::string PrecisionReport::ToString() const {
  std::string text;
  for (const LeftAlone& each : left_alone) {
    text += fmt::format("operation {} ({}): left alone: {}\n",
                        Shortened(each.operation), each.kind, each.reason);
  }
  return text + fmt::format("{} in {}, {} left alone\n", changes.size(),
                            nodewise::ToString(precision), left_alone.size());
}

absl::StatusOr<PrecisionReport> LowerPrecision(const PrecisionOptions& options,
                                               Network& network) {
  const PrecisionRow& row = RowOfPrecision(options.precision);
  NODEWISE_ASSIGN_OR_RETURN(const auto keep, ParseKeep(options.keep));
  const bool is_int8 = options.precision == Precision::kInt8;
  if (is_int8 && options.calibration.empty()) {
    return InvalidArgument(
        "int8: there is no range of any value, expected those of float32 "
        "values that have finite numbers with at least one sample input");
  }
  // All work is done on copies, so that the network is unchanged where it
  // fails.
  Network old = network;
  NODEWISE_RETURN_IF_ERROR(RaiseOpset(row, options.clip, &old));
  PrecisionPlan plan;
  PlanKnownReasons(old, options, keep.get(), &plan);
  PrecisionReport report;
  report.precision = options.precision;
  if (is_int8) {
    if (options.most_weight < PrecisionOptions::kMostInt8) {
      report.notes.push_back(fmt::format(
          "weights of products are from -{0} to {0}, with which no sum of "
          "products saturates",
          options.most_weight));
    }
    PlanInt8(old, options.calibration, &plan);
    NODEWISE_ASSIGN_OR_RETURN(network, MakeInt8(old, options, plan, &report));
  } else {
    PlanShortFloats(row.type, old, &plan);
    NODEWISE_ASSIGN_OR_RETURN(
        network, MakeShortFloats({row.type, options.clip}, old, plan, &report));
  }
  AddToReport(old, plan, &report);
  return report;
}

}  // namespace nodewise
