#include "nodewise/ops/control_flow.h"

#include <algorithm>
#include <iterator>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/body_loops.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<bool> TruthOf(const EvalArgs& args, size_t i) {
  if (CountOf(args.in(i)) != 1 || !IsBool(args.dtype(i))) {
    return InputError(i, "is not one bool");
  }
  return *args.in(i).As<uint8_t>() != 0;
}

// Returns the type that covers both branches; sides that differ become unknown.
TensorType EitherOf(const TensorType& a, const TensorType& b) {
  TensorType either;
  either.dtype = a.has_dtype() ? a.dtype : b.dtype;
  if (a.has_dtype() && b.has_dtype() && !(a.dtype == b.dtype)) {
    either.dtype = DLDataType{};
  }
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return either;
  either.shape = a.shape;
  for (size_t i = 0; i < either.shape->size(); ++i) {
    // A name of an unknown side may mean another number in each body.
    const Dim& side = (*a.shape)[i];
    const bool is_same = side.is_known() && side == (*b.shape)[i];
    if (!is_same) (*either.shape)[i] = Dim();
  }
  return either;
}

struct If : ops::If {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&If::else_branch>("else_branch"),
                     RequiredField<&If::then_branch>("then_branch"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(
        CheckBody("else_branch", else_branch, 0),
        CheckBody("then_branch", then_branch, 0), RequireBool(in, 0),
        RequireCount(in, 1 + else_branch.captures + then_branch.captures));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs&, size_t count) const {
    const std::vector<TensorType> then_types = OutputTypesOf(then_branch);
    const std::vector<TensorType> else_types = OutputTypesOf(else_branch);
    if (then_types.size() < count || else_types.size() < count) {
      return absl::InvalidArgumentError(
          fmt::format("has {} outputs, but its bodies {} and {}", count,
                      then_types.size(), else_types.size()));
    }
    OutputInfos infos;
    for (size_t i = 0; i < count; ++i) {
      infos.emplace_back(EitherOf(then_types[i], else_types[i]));
    }
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const bool is_true, TruthOf(args, 0));
    const Subgraph& branch = is_true ? then_branch : else_branch;
    const size_t first = is_true ? 1 + else_branch.captures : 1;
    NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> outputs,
                              RunBody(args, branch, {}, first));
    for (size_t i = 0; i < args.num_outputs(); ++i) {
      args.SetOutput(i, std::move(outputs[i]));
    }
    return absl::OkStatus();
  }
};

struct Loop : ops::Loop {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Loop::body>("body"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireType(in, 0, kInt64),
                                 RequireRank(in, 0, 0, 1), RequireBool(in, 1),
                                 RequireRank(in, 1, 0, 1)));
    if (in.size() < 2 + size_t{body.captures}) {
      return absl::InvalidArgumentError(fmt::format(
          "has {} inputs, expected {} at least", in.size(), 2 + body.captures));
    }
    const size_t carried = in.size() - 2 - body.captures;
    NODEWISE_RETURN_IF_ERROR(CheckBody("body", body, 2 + carried));
    for (size_t i = 2; i < 2 + carried; ++i) {
      NODEWISE_RETURN_IF_ERROR(RequireBodyType(in, i, body, i));
    }
    if (body.body->outputs().size() >= 1 + carried) return absl::OkStatus();
    return AttributeError(
        "body", fmt::format("has {} outputs, expected {} at least",
                            body.body->outputs().size(), 1 + carried));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t count) const {
    const std::vector<TensorType> made = OutputTypesOf(body);
    const size_t carried = in.size() - 2 - body.captures;
    if (count > made.size() - 1) {
      return absl::InvalidArgumentError(fmt::format(
          "has {} outputs, but its body makes {}", count, made.size() - 1));
    }
    OutputInfos infos;
    for (size_t i = 0; i < count; ++i) {
      if (i < carried) {
        // Without any trip the inputs are passed on.
        infos.emplace_back(EitherOf(in.type(2 + i), made[1 + i]));
        continue;
      }
      infos.emplace_back(Stacked(made[1 + i], 0, Trips(in)));
    }
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  // How often it runs, if no condition ends it.
  Dim Trips(const Inputs& in) const {
    const auto trips = in.Ints(0);
    if (in.has(1) || !trips.has_value() || trips->size() != 1) return Dim();
    return std::max<int64_t>(0, (*trips)[0]);
  }
};

absl::StatusOr<NDArray> ScalarOf(DLDataType dtype, int64_t value) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray scalar,
                            NDArray::Empty({}, dtype, kCpu));
  if (dtype == kInt64) {
    *scalar.As<int64_t>() = value;
  } else {
    *scalar.As<uint8_t>() = value != 0 ? 1 : 0;
  }
  return scalar;
}

absl::Status Loop::Evaluate(EvalArgs& args) const {
  const size_t carried = args.num_inputs() - 2 - body.captures;
  int64_t trips = INT64_MAX;
  if (args.has(0)) {
    NODEWISE_ASSIGN_OR_RETURN(const auto given, args.Ints(0));
    if (given.size() != 1) return InputError(0, "is not one number");
    trips = given[0];
  }
  bool goes_on = true;
  if (args.has(1)) {
    NODEWISE_ASSIGN_OR_RETURN(goes_on, TruthOf(args, 1));
  }
  std::vector<NDArray> values;
  for (size_t i = 0; i < carried; ++i) values.push_back(args.in(2 + i));
  std::vector<std::vector<NDArray>> scans(body.body->outputs().size() - 1 -
                                          carried);
  for (int64_t trip = 0; trip < trips && goes_on; ++trip) {
    std::vector<NDArray> inputs(2);
    NODEWISE_ASSIGN_OR_RETURN(inputs[0], ScalarOf(kInt64, trip));
    NODEWISE_ASSIGN_OR_RETURN(inputs[1], ScalarOf(kBool, 1));
    std::move(values.begin(), values.end(), std::back_inserter(inputs));
    NODEWISE_ASSIGN_OR_RETURN(
        std::vector<NDArray> made,
        RunBody(args, body, std::move(inputs), 2 + carried));
    if (CountOf(made[0]) != 1 || !IsBool(made[0].dtype())) {
      return AttributeError("body", "makes a condition that is not one bool");
    }
    // If no condition was given, the body's is ignored.
    goes_on = !args.has(1) || *made[0].As<uint8_t>() != 0;
    values.assign(std::make_move_iterator(made.begin() + 1),
                  std::make_move_iterator(made.begin() + 1 +
                                          static_cast<int64_t>(carried)));
    for (size_t i = 0; i < scans.size(); ++i) {
      scans[i].push_back(std::move(made[1 + carried + i]));
    }
  }
  for (size_t i = 0; i < args.num_outputs(); ++i) {
    if (i < carried) {
      args.SetOutput(i, values[i]);
    } else if (args.wants(i)) {
      const TensorType& type =
          body.body->value(body.body->outputs()[1 + i]).type;
      NODEWISE_RETURN_IF_ERROR(
          StackOutput(args, i, scans[i - carried], 0, type));
    }
  }
  return absl::OkStatus();
}

constexpr OperatorDef kControlFlowRows[] = {
    Row<ops::If, If>({.name = "If",
                      .since = 1,
                      .inputs = {"cond", Variadic("captures")},
                      .outputs = {Variadic("outputs")},
                      .bound = kSum}),
    Row<ops::Loop, Loop>(
        {.name = "Loop",
         .since = 1,
         .inputs = {Optional("M"), Optional("cond"), Variadic("v_initial")},
         .outputs = {Variadic("v_final_and_scan_outputs")},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> ControlFlowOperators() {
  return kControlFlowRows;
}

}  // namespace nodewise
